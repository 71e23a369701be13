#!/usr/bin/env python3
"""Makes the tiny BERT of the tests, and what the reference libraries make of some texts with it.

Needs numpy, onnx, onnxruntime and tokenizers. Usage: python3 make.py
"""
import json
import math
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

here = pathlib.Path(__file__).parent / "tiny"
here.mkdir(exist_ok=True)
rng = np.random.default_rng(1)

# --- tokenizer.json
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
letters = [c for c in "abcdefghijklmnopqrstuvwxyz0123456789.,;:!?()-+$'\"é日本語中"]
words = "the of and in cell gene protein neuron brain link cite paper graph node text vector bread dough flour boat sail wind data model learn network un seen expos ure".split()
vocab = special + letters + ["##" + c for c in letters if c.isalnum() and c.isascii()] + words + ["##s", "##ing", "##ed", "##ure", "##seen"]
vocab = {w: i for i, w in enumerate(dict.fromkeys(vocab))}
tokenizer = {
    "version": "1.0",
    "truncation": {"direction": "Right", "max_length": 24, "strategy": "LongestFirst", "stride": 0},
    "padding": None,
    "added_tokens": [{"id": vocab[t], "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for t in special],
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
        "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
        "special_tokens": {t: {"id": t, "ids": [vocab[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")},
    },
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab},
}
(here / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
(here / "config.json").write_text(json.dumps({"model_type": "bert", "max_position_embeddings": 32, "hidden_size": 16}))

# --- model.onnx: one layer of BERT with two heads, spelled out as exporters do
d, heads, positions = 16, 2, 32
nodes, initializers = [], []


def weight(name, *shape, scale=0.3):
    initializers.append(numpy_helper.from_array((rng.standard_normal(shape) * scale).astype(np.float32), name))
    return name


def constant(name, value):
    initializers.append(numpy_helper.from_array(np.asarray(value), name))
    return name


def op(kind, *inputs, **attributes):
    out = f"{kind.lower()}_{len(nodes)}"
    nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
    return out


def norm(x, name):
    mean = op("ReduceMean", x, axes=[-1])
    centred = op("Sub", x, mean)
    variance = op("ReduceMean", op("Pow", centred, constant(name + ".two", np.float32(2))), axes=[-1])
    scaled = op("Div", centred, op("Sqrt", op("Add", variance, constant(name + ".eps", np.float32(1e-12)))))
    return op("Add", op("Mul", scaled, weight(name + ".weight", d, scale=1)), weight(name + ".bias", d))


def linear(x, name, wide_in, wide_out):
    return op("Add", op("MatMul", x, weight(name + ".weight", wide_in, wide_out)), weight(name + ".bias", wide_out))


# positions 0 … length−1, cut by the shape of the input
length = op("Gather", op("Shape", "input_ids"), constant("one", np.int64(1)), axis=0)
ids = op("Slice", constant("position_ids", np.arange(positions, dtype=np.int64)[None]), constant("zero", np.int64([0])), op("Unsqueeze", length, constant("axis0", np.int64([0]))), constant("axis1", np.int64([1])))
x = op("Add", op("Gather", weight("word", len(vocab), d), "input_ids"), op("Gather", weight("type", 2, d), "token_type_ids"))
x = norm(op("Add", x, op("Gather", weight("position", positions, d), ids)), "norm0")
mask = op("Cast", op("Unsqueeze", "attention_mask", constant("axes12", np.int64([1, 2]))), to=TensorProto.FLOAT)
mask = op("Mul", op("Sub", constant("f1", np.float32(1)), mask), constant("lowest", np.float32(-10000)))


def split(x, perm):
    return op("Transpose", op("Reshape", x, constant(f"heads{len(nodes)}", np.int64([0, 0, heads, d // heads]))), perm=perm)


q, k, v = (split(linear(x, n, d, d), p) for n, p in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])))
scores = op("Add", op("Div", op("MatMul", q, k), constant("root", np.float32(math.sqrt(d / heads)))), mask)
attended = op("Transpose", op("MatMul", op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
attended = op("Reshape", attended, constant("flat", np.int64([0, 0, d])))
x = norm(op("Add", x, linear(attended, "dense", d, d)), "norm1")
wide = linear(x, "wide", d, 4 * d)
gelu = op("Mul", op("Mul", wide, constant("half", np.float32(0.5))), op("Add", constant("g1", np.float32(1)), op("Erf", op("Div", wide, constant("root2", np.float32(math.sqrt(2)))))))
x = norm(op("Add", x, linear(gelu, "narrow", 4 * d, d)), "norm2")
nodes[-1].output[0] = "last_hidden_state"
ints = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "sequence"]) for n in ("input_ids", "attention_mask", "token_type_ids")]
graph = helper.make_graph(nodes, "tiny", ints, [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", d])], initializers)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="make.py")
onnx.checker.check_model(model)
onnx.save(model, str(here / "model.onnx"))

# --- what the references make of some texts
texts = [
    "The cell and the gene.", "unseen exposure", "Neurons link; papers cite!", "Béla ÉTUDE naïve Ångström", "日本語 and 中 text",
    "a\tb\nc\x00d\u200be", "", "   ", "!?$+^`|~<=>", "x" * 101 + " brain", "wind " * 60, "ligatures ﬁ and ① — “quotes” … ½",
    "İstanbul ǅ ß ẞ Σίσυφος", "emoji 🤖 and \ufffd end", "don't stop-words", "word" + "\u0301" * 5, "\u00a0non\u3000breaking\u2028spaces",
]
reference = Tokenizer.from_file(str(here / "tokenizer.json"))
session = onnxruntime.InferenceSession(str(here / "model.onnx"), providers=["CPUExecutionProvider"])
expected = []
for text in texts:
    e = reference.encode(text)
    ids = np.array([e.ids], dtype=np.int64)
    (hidden,) = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)})
    unit = lambda x: [round(float(v), 6) for v in x / np.linalg.norm(x)]
    expected.append({"text": text, "ids": e.ids, "mean": unit(hidden[0].mean(0)), "cls": unit(hidden[0, 0])})
(here / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=0))
