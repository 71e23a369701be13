#!/usr/bin/env python3
"""Writes golden.json beside itself: random pairs and rankings with the values scikit-learn gives.

Run it only to change the cases; the tests read the JSON and need no Python.
"""
import json
import pathlib

import numpy as np
import sklearn
from sklearn import metrics

rng = np.random.default_rng(20240229)


def scored(name, n, share, step=None, weights=None, threshold=0.5):
    """n pairs, a share of them linked; step rounds scores to make ties; weights: None, 'int', 'float', 'zeros'."""
    linked = rng.random(n) < share
    linked[0], linked[1] = True, False
    scores = 1 / (1 + np.exp(-(rng.normal(size=n) + 1.2 * linked - 0.6)))
    if step:
        scores = np.round(scores / step) * step
    w = {
        None: None,
        "int": rng.integers(1, 6, size=n).astype(float),
        "float": rng.exponential(size=n),
        "zeros": rng.exponential(size=n) * (rng.random(n) < 0.7),
    }[weights]
    if w is not None:
        w[0], w[1] = max(w[0], 0.1), max(w[1], 0.1)
    predicted = scores >= threshold
    tn, fp, fn, tp = metrics.confusion_matrix(linked, predicted, sample_weight=w).ravel()
    return {
        "name": name,
        "scores": scores.tolist(),
        "linked": linked.tolist(),
        "weights": None if w is None else w.tolist(),
        "threshold": threshold,
        "tp": float(tp), "fp": float(fp), "fn": float(fn), "tn": float(tn),
        "precision": metrics.precision_score(linked, predicted, sample_weight=w),
        "recall": metrics.recall_score(linked, predicted, sample_weight=w),
        "f1": metrics.f1_score(linked, predicted, sample_weight=w),
        "accuracy": metrics.accuracy_score(linked, predicted, sample_weight=w),
        "auc": metrics.roc_auc_score(linked, scores, sample_weight=w),
        "average_precision": metrics.average_precision_score(linked, scores, sample_weight=w),
        "thresholded_ap": metrics.average_precision_score(linked, predicted.astype(float), sample_weight=w),
    }


def ranking(name, sources, targets, links):
    """Scores without ties, since scikit-learn averages over ties where we rank by target number."""
    scores = rng.normal(size=(sources, targets))
    truth = np.zeros((sources, targets), dtype=int)
    for i in range(sources):
        truth[i, rng.choice(targets, size=links[i % len(links)], replace=False)] = 1
    cutoffs = [1, 3, 10, targets]
    # With one link per source, label ranking average precision is the mean reciprocal rank, and
    # coverage error the mean rank.
    single = truth * (np.cumsum(truth, axis=1) == 1)
    return {
        "name": name,
        "scores": scores.tolist(),
        "linked": [np.flatnonzero(row).tolist() for row in truth],
        "cutoffs": cutoffs,
        "ndcg": [metrics.ndcg_score(truth, scores, k=k) for k in cutoffs],
        "single_mrr": metrics.label_ranking_average_precision_score(single, scores),
        "single_mean_rank": metrics.coverage_error(single, scores),
    }


def compact(case):
    return "{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in case.items()) + "\n}"


scored_cases = [
    scored("two pairs", 2, 0.5),
    scored("no ties", 40, 0.4),
    scored("ties", 60, 0.3, step=0.1),
    scored("many ties", 50, 0.5, step=0.5),
    scored("rare links", 300, 0.02, step=0.01, threshold=0.6),
    scored("whole weights", 60, 0.4, step=0.05, weights="int"),
    scored("weights", 60, 0.4, weights="float", threshold=0.4),
    scored("weights and ties", 60, 0.4, step=0.1, weights="float"),
    scored("weights of zero", 60, 0.4, step=0.1, weights="zeros"),
]
ranking_cases = [
    ranking("one link each", 6, 12, [1]),
    ranking("several links", 5, 30, [1, 4, 12]),
]

out = pathlib.Path(__file__).with_name("golden.json")
out.write_text(
    "{\n"
    f'"made_by": "golden.py with scikit-learn {sklearn.__version__}, numpy {np.__version__}",\n'
    '"scored": [\n' + ",\n".join(map(compact, scored_cases)) + "\n],\n"
    '"rankings": [\n' + ",\n".join(map(compact, ranking_cases)) + "\n]\n}\n"
)
