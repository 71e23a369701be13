"""Writes the pickles beside it: python3 make.py, with NumPy. TensorFlow is not needed: a module of its
name stands in, because an eager tensor pickles as nothing but the name convert_to_tensor and an array."""
import collections, pickle, sys, types
import numpy as np

ops = types.ModuleType("tensorflow.python.framework.ops")
def convert_to_tensor(value): return value
convert_to_tensor.__module__ = ops.__name__
ops.convert_to_tensor = convert_to_tensor
for name in ("tensorflow", "tensorflow.python", "tensorflow.python.framework"):
    sys.modules[name] = types.ModuleType(name)
sys.modules[ops.__name__] = ops

class EagerTensor:
    def __init__(self, array): self.array = array
    def __reduce__(self): return ops.convert_to_tensor, (self.array,)

class PaperMetadata:
    def __init__(self, paper_id, tokens, fos):
        self.paper_id, self.tokens, self.fos = paper_id, tokens, fos

shared = [1, 2]
plain = {
    "none": None, "yes": True, "no": False, "ints": [0, 1, -1, 255, 256, 65536, -2**31, 2**31, -2**63, 2**63 - 1],
    "big": [2**63, -2**63 - 1, 2**200], "floats": [0.0, -1.5, 1e300, float("inf")],
    "text": "żółw\n'\"\\ 🐢", "bytes": b"\x00\xff\x80", "array": bytearray(b"\x01\xfe"),
    "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "set": {7}, "frozen": frozenset([8]),
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]), "default": collections.defaultdict(list, {"k": [3]}),
    "shared": [shared, shared], "record": PaperMetadata(5, {"reality"}, ["engineering"]), "class": collections.Counter,
}
base = np.array([[0, 1, 2], [3, 4, 5]])
arrays = {code: base.astype(code) for code in
          ("<f2", "<f4", "<f8", ">f2", ">f4", ">f8", "<i2", ">i4", "<i8", "i1", "u1", "<u2", ">u4", "<u8", "?")}
arrays.update({
    "fortran": np.asfortranarray(base.astype("<f4")), "cube": np.asfortranarray(np.arange(24, dtype="<i4").reshape(2, 3, 4)),
    "zero": np.float32(2.5), "count": np.int64(-7), "flag": np.bool_(True), "shapeless": np.array(3.0), "empty": np.zeros((0, 4)),
    "objects": np.array([1, "a", None], dtype=object), "names": np.array(["ab"]), "tensor": EagerTensor(base.astype("<i8")),
    "fields": np.zeros(1, dtype=[("a", "<f4")]),
})
for protocol in range(6):
    with open(f"plain{protocol}.pkl", "wb") as f: pickle.dump(plain, f, protocol)
    with open(f"numpy{protocol}.pkl", "wb") as f: pickle.dump(arrays, f, protocol)
