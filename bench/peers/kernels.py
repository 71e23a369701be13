"""The peers of the kernels: OpenBLAS through numpy, FAISS, torch. One JSON task per line in, one
JSON answer per line out, with the seconds that the task itself took."""
import json, sys, time
import numpy as np

blas_thresholds = (1, 128000)  # queries from which FAISS multiplies by BLAS: always, and what it has by itself
kept = {}  # data and indexes that later tasks use again


def clock(f):
    began = time.perf_counter()
    f()
    return time.perf_counter() - began


def stream(t):
    """Reads one long array once: OpenBLAS sdot of it with itself."""
    if kept.get("stream") is None or len(kept["stream"]) != t["n"]:
        kept["stream"] = np.ones(t["n"], np.float32)
    x = kept["stream"]
    return {"seconds": clock(lambda: np.dot(x, x))}


def sgemm(t):
    key = ("sgemm", t["m"], t["n"], t["d"])
    if key not in kept:
        r = np.random.default_rng(1)
        kept[key] = (r.standard_normal((t["m"], t["d"]), np.float32), r.standard_normal((t["n"], t["d"]), np.float32), np.empty((t["m"], t["n"]), np.float32))
    a, b, z = kept[key]
    return {"seconds": clock(lambda: np.dot(a, b.T, out=z))}


def topk(t):
    try:
        import faiss
    except ImportError:
        return {"missing": "faiss is not installed"}
    faiss.omp_set_num_threads(1)
    if kept.get("rows") != t["rows"]:
        rows = np.fromfile(t["rows"], np.float32).reshape(-1, t["d"])
        kept["index"] = faiss.IndexFlatIP(t["d"])
        kept["index"].add(rows)
        kept["rows"] = t["rows"]
    q = np.fromfile(t["queries"], np.float32).reshape(-1, t["d"])
    found, seconds = [], []
    for threshold in blas_thresholds:
        faiss.cvar.distance_compute_blas_threshold = threshold
        seconds.append(clock(lambda: found.append(kept["index"].search(q, t["k"]))))
    return {"seconds": min(seconds), "ids": found[0][1].tolist()}


def sigmoid_softplus(t):
    try:
        import torch
    except ImportError:
        return {"missing": "torch is not installed"}
    torch.set_num_threads(1)
    if "z" not in kept or len(kept["z"]) != t["n"]:
        kept["z"] = torch.randn(t["n"])
        kept["y"] = torch.empty(t["n"])
        kept["loss"] = torch.empty(t["n"])
    z = kept["z"]

    def both():
        for _ in range(t["times"]):
            torch.sigmoid(z, out=kept["y"])
            torch._C._nn.softplus(z, out=kept["loss"])

    return {"seconds": clock(both)}


def graph(t):
    """Builds an index of rows on one thread, and says how large it is."""
    rows = np.fromfile(t["rows"], np.float32).reshape(-1, t["d"])
    try:
        began = time.perf_counter()
        if t["kind"] == "hnswlib":
            import hnswlib
            made = hnswlib.Index("ip", t["d"])
            made.init_index(len(rows), M=16, ef_construction=200, random_seed=1)
            made.set_num_threads(1)
            made.add_items(rows)
            size = made.index_file_size()
        elif t["kind"] == "faiss":
            import faiss
            faiss.omp_set_num_threads(1)
            made = faiss.IndexHNSWFlat(t["d"], 16, faiss.METRIC_INNER_PRODUCT)
            made.hnsw.efConstruction = 200
            made.add(rows)
            size = faiss.serialize_index(made).nbytes
        elif t["kind"] == "ivf":
            import faiss
            faiss.omp_set_num_threads(1)
            made = faiss.index_factory(t["d"], f"IVF1024,PQ{t['d'] // 2}x4fs,RFlat", faiss.METRIC_INNER_PRODUCT)
            made.train(rows[:: max(1, len(rows) // 100_000)])
            made.add(rows)
            size = faiss.serialize_index(made).nbytes
        elif t["kind"] == "scann":
            import scann
            leaves = int(2 * len(rows) ** 0.5)
            builder = scann.scann_ops_pybind.builder(rows, t["k"], "dot_product").set_n_training_threads(1)
            builder = builder.tree(num_leaves=leaves, num_leaves_to_search=leaves // 10, training_sample_size=100_000)
            made = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(10 * t["k"]).build()
            size = 0  # it does not say
        else:
            from usearch.index import Index
            made = Index(ndim=t["d"], metric="ip", dtype="f32", connectivity=16, expansion_add=200)
            made.add(np.arange(len(rows)), rows, threads=1)
            size = made.memory_usage
    except ImportError as e:
        return {"missing": f"{e.name} is not installed"}
    seconds = time.perf_counter() - began
    kept["graph", t["kind"]] = made
    return {"seconds": seconds, "bytes": size}


def faiss_lists(made):
    """The inverted lists below an index that rescores."""
    import faiss
    return faiss.extract_index_ivf(made)


def graph_search(t):
    """Searches for one query after the other."""
    made = kept["graph", t["kind"]]
    queries = np.fromfile(t["queries"], np.float32).reshape(-1, 1, t["d"])
    k, width = t["k"], t["width"]
    if t["kind"] == "hnswlib":
        made.set_ef(width)
        search = lambda q: made.knn_query(q, k=k)[0][0]
    elif t["kind"] == "faiss":
        made.hnsw.efSearch = width
        search = lambda q: made.search(q, k)[1][0]
    elif t["kind"] == "ivf":
        faiss_lists(made).nprobe, made.k_factor = width // 16, max(4, width // 64)
        search = lambda q: made.search(q, k)[1][0]
    elif t["kind"] == "scann":
        search = lambda q: made.search(q[0], final_num_neighbors=k, leaves_to_search=width // 16, pre_reorder_num_neighbors=k * max(4, width // 64))[0]
    else:
        made.expansion_search = width
        search = lambda q: made.search(q[0], k).keys
    began = time.perf_counter()
    found = [search(q) for q in queries]
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "ids": [np.asarray(x).astype(np.int64).tolist() for x in found]}


def settings(t):
    """What the peers are, and what they are set to."""
    said = [f"numpy {np.__version__}"]
    try:
        import faiss
        said.append(f"FAISS {faiss.__version__} ({faiss.get_compile_options().strip()}), the faster of BLAS thresholds {blas_thresholds}")
    except ImportError:
        pass
    for name in ("hnswlib", "usearch", "scann"):
        try:
            from importlib.metadata import version
            said.append(f"{name} {version(name)}")
        except ImportError:
            pass
    try:
        import torch
        said.append(f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})")
    except ImportError:
        pass
    return {"seconds": 0, "settings": "; ".join(said)}


def forget(t):
    kept.clear()
    return {"seconds": 0}


tasks = {"stream": stream, "sgemm": sgemm, "topk": topk, "sigmoid_softplus": sigmoid_softplus, "forget": forget, "graph": graph, "graph_search": graph_search, "settings": settings}
for line in sys.stdin:
    t = json.loads(line)
    try:
        reply = tasks[t["task"]](t)
    except Exception as e:  # the other side decides what to do with it
        reply = {"error": f"{type(e).__name__}: {e}"}
    print(json.dumps(reply), flush=True)
