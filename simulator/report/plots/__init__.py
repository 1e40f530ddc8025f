"""Plots of a run, a comparison and a sweep; import it only to draw, since matplotlib is slow."""

from simulator.report.plots.attribution import plot_attribution
from simulator.report.plots.compare import plot_comparison
from simulator.report.plots.distributions import plot_itl, plot_latency
from simulator.report.plots.memory_map import plot_memory_map
from simulator.report.plots.save import save_plots
from simulator.report.plots.sweep import plot_pareto, plot_slo_region
from simulator.report.plots.timeline import plot_load, plot_timeline

__all__ = [
    "plot_attribution",
    "plot_comparison",
    "plot_itl",
    "plot_latency",
    "plot_load",
    "plot_memory_map",
    "plot_pareto",
    "plot_slo_region",
    "plot_timeline",
    "save_plots",
]
