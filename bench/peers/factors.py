# Trains peers that learn factors of people and items, one task per line of standard input, and leaves the factors in
# files for the caller to judge: peers and we are judged by the same code.
import json, os, resource, sys, time
import numpy as np
import scipy.sparse as sp
import implicit
from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking

print(json.dumps({"version": implicit.__version__}), flush=True)
data = None
for line in sys.stdin:
    task = json.loads(line)
    if task["task"] == "read":
        pairs = np.fromfile(task["pairs"], np.int32).reshape(-1, 2)
        data = sp.csr_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])),
                             shape=(task["people"], task["items"]))
        print(json.dumps({}), flush=True)
        continue
    common = dict(factors=task["factors"], iterations=task["iterations"], num_threads=1, random_state=1)
    if task["task"] == "als":
        model = AlternatingLeastSquares(regularization=task["regularisation"], alpha=task["alpha"], **common)
    else:
        model = BayesianPersonalizedRanking(regularization=task["regularisation"], learning_rate=task["rate"], **common)
    began = time.process_time()
    model.fit(data, show_progress=False)
    seconds = time.process_time() - began
    model.user_factors.astype(np.float32).tofile(task["u"])
    model.item_factors.astype(np.float32).tofile(task["v"])
    print(json.dumps({"seconds": seconds, "columns": int(model.user_factors.shape[1]),
                      "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)
