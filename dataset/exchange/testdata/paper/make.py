"""Writes small pickles of the layout that the paper's notebooks read, and expected.json with what they would
draw: python3 make.py, with NumPy. A module that is called tensorflow stands in for it, because an eager tensor
pickles as nothing but the name convert_to_tensor and an array."""
import json, os, pickle, random, sys, types
import numpy as np

ops = types.ModuleType("tensorflow.python.framework.ops")
def convert_to_tensor(value): return value
convert_to_tensor.__module__ = ops.__name__
ops.convert_to_tensor = convert_to_tensor
for name in ("tensorflow", "tensorflow.python", "tensorflow.python.framework"):
    sys.modules[name] = types.ModuleType(name)
sys.modules[ops.__name__] = ops

class Tensor:
    def __init__(self, array): self.array = np.asarray(array)
    def __reduce__(self): return ops.convert_to_tensor, (self.array,)

class PaperMetadata:
    def __init__(self, paper_id, tokens, fos): self.paper_id, self.tokens, self.fos = paper_id, tokens, fos

roots = ["art", "biology", "business", "chemistry", "computer science", "economics", "engineering", "environmental science", "geography",
         "geology", "history", "materials science", "mathematics", "medicine", "philosophy", "physics", "political science", "psychology", "sociology"]
r = np.random.default_rng(1)
nodes, dim, seed = 30, 6, 234981293
ids = {k: 1600000000 + 1000003 * k for k in range(nodes)}
vectors = {ids[k]: r.standard_normal(dim).astype(np.float32) for k in range(nodes)}
weights = [r.standard_normal((dim, 1)).astype(np.float32), np.array([-0.25], np.float32)]
records = {ids[k]: PaperMetadata(ids[k], {"word%d" % k, "paper"}, [roots[k % 19]]) for k in range(nodes)}

def batches(n):
    out = []
    for _ in range(n):
        source = r.integers(1, nodes, 16); target = (source * r.random(16)).astype(np.int64)
        out.append({"paper_citer": Tensor(source), "paper_cited": Tensor(target)})
    return out
parts = batches(5), batches(2), batches(3)

np.random.seed(seed)
low = np.random.binomial(1, 0.8, size=21**2)
pi = low * np.random.uniform(.1, .3, size=21**2) + (1 - low) * np.random.uniform(.7, 1, size=21**2)
for k in range(1, 20): pi[k * 19 + k] = np.random.uniform(0.7, 0.9)
def field(k):
    random.seed(int(k)); return random.randrange(19)
expected = {"fields": {str(ids[k]): roots[field(k)] for k in range(nodes)}, "pairs": []}
for part in parts:
    source = np.concatenate([b["paper_citer"].array for b in part]); target = np.concatenate([b["paper_cited"].array for b in part])
    shown = np.array([pi[(field(i) + 1) * 19 + field(j) + 1] for i, j in zip(source, target)])
    h = np.array([vectors[ids[i]] * vectors[ids[j]] for i, j in zip(source, target)])
    y = 1 / (1 + np.exp(-(h @ weights[0] + weights[1])[:, 0]))
    for k in range(0, len(source), 32):
        np.random.seed(seed); exposed = np.random.binomial(1, shown[k:k+32])
        np.random.seed(seed); truth = np.random.binomial(1, y[k:k+32])
        for x in range(len(exposed)):
            expected["pairs"].append([ids[source[k+x]], ids[target[k+x]], float(shown[k+x]), int(exposed[x]), int(truth[x])])

def dump(name, value, protocol=3):
    with open(name, "wb") as f: pickle.dump(value, f, protocol)
half = nodes // 2
dump("semi_synthetic_data.pkl", parts)
dump("semi_synthetic_data_metadata.pkl", (weights, set(records), ids, records))
dump("nodes_to_scibert_embedding_1.pkl", {k: v for k, v in list(vectors.items())[:half]}, 4)
dump("nodes_to_scibert_embedding_2.pkl", {k: v for k, v in list(vectors.items())[half:]}, 2)
os.makedirs("real", exist_ok=True)
dump("real/train_nodes.pkl", [ids[k] for k in range(4)])
dump("real/val_nodes.pkl", [ids[k] for k in range(4, 6)])
dump("real/test_nodes.pkl", np.array([ids[6]]))
dump("real/vectors.pkl", {ids[k]: vectors[ids[k]] for k in range(7)}, 5)
with open("expected.json", "w") as f: json.dump(expected, f)
