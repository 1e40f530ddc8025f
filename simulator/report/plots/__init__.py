"""Plots of a run and of a comparison; import it only to draw, since matplotlib is slow."""

from simulator.report.plots.compare import plot_comparison
from simulator.report.plots.distributions import plot_itl, plot_latency
from simulator.report.plots.timeline import plot_load, plot_timeline

__all__ = ["plot_comparison", "plot_itl", "plot_latency", "plot_load", "plot_timeline"]
