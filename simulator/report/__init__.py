"""What a run looks like to a person: text block, files, page and plots."""
