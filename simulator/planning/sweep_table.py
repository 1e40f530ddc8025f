"""The table of a sweep: one row per point and replicate, ``results.parquet`` and ``.csv``.

Its columns, in this order; they are the interface of everything that plots a sweep:

====================================  ======================================================
column                                what it is
====================================  ======================================================
``point``                             number of the point, from 0, in the order of the grid
``replicate``                         number of the random sample, from 0
one per swept key                     named as the key is (``scheduler.max_num_seqs``): int64,
                                      float64 or bool where all values are, else text
``status``                            ``ok``, or ``failed``: then all figures are missing
``error``                             why it failed, a sentence; missing where it did not
every number and ``state``            of summary.json, by its key
``limiting_resource``                 the first of ``limits``, and its share of time
``limiting_share``
``slo_met``                           whether every objective, of every class, was met;
                                      missing where there is none
``slo.KEY``, ``slo.CLASS.KEY``        what was measured for an objective, ms
``output_tokens_per_s_per_gpu``       output_throughput / num_gpus
``output_tokens_per_s_per_user``      1000 / median_tpot_ms: how fast one answer is written
``pareto``                            whether the point is efficient: no other is at least as
                                      good in both of the columns above and better in one, by
                                      the means over replicates; overloaded points are not
``scenario_hash``                     of summary.json; the same for all replicates of a point
====================================  ======================================================
"""
