"""Reads a model file with Python's safetensors, as a user would, and writes it again.

python3 read.py IN OUT   prints one JSON document: the metadata, the tensors, the digest as
File's documentation defines it, and z and s of the pair (0, 1) from the numbers alone.
"""
import hashlib
import json
import sys

import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

source, copy = sys.argv[1:]
with safe_open(source, framework="numpy") as f:
    metadata = f.metadata()
tensors = load_file(source)
dtypes = {"float64": "F64", "float32": "F32", "int32": "I32"}
order = sorted(tensors, key=lambda name: (list(dtypes).index(str(tensors[name].dtype)), name))

digest = hashlib.sha256()
for key in sorted(metadata):
    if key != "sha256":
        value = metadata[key]
        digest.update(f"{len(key.encode())}:{key} {len(value.encode())}:{value}\n".encode())
for name in order:
    shape = " ".join(str(n) for n in tensors[name].shape)
    digest.update(f"{len(name.encode())}:{name} {dtypes[str(tensors[name].dtype)]} [{shape}]\n".encode())
for name in order:
    digest.update(tensors[name].tobytes())

h, fields = tensors["test.vectors"], tensors["test.fields"]
z = numpy.sum(tensors["link.w"] * h[0] * h[1]) + tensors["link.b"][0]
s = tensors["propensity.logits"][fields[0], fields[1]]

print(json.dumps({
    "metadata": metadata,
    "digest": digest.hexdigest(),
    "tensors": {name: [str(t.dtype), list(t.shape), t.ravel().tolist()] for name, t in tensors.items()},
    "z": float(z),
    "s": float(s),
}))
save_file(tensors, copy, metadata=metadata)
