// Package onnx turns texts into vectors with a neural encoder of the BERT kind, from a folder that holds
//
//	model.onnx      takes input_ids, attention_mask and perhaps token_type_ids, returns a vector per token
//	tokenizer.json  of the WordPiece kind
//	config.json     optional: max_position_embeddings, the longest sequence
//
// as sentence encoders are published. The vectors of the tokens are pooled, and the result has length 1:
//
//	mean  the mean over all tokens
//	cls   the first token's
//
//	e, err := onnx.Open("models/minilm", onnx.Options{Pooling: "mean"})
//	defer e.Close()
//	vectors, err := e.Encode(ctx, []encode.Text{{Title: "A new paper"}})
//
// It runs in pure Go. Built with -tags onnxruntime, which needs cgo and the shared library of ONNX Runtime
// (at the path ONNXRUNTIME_LIBRARY), it runs many times faster. It is a package of its own so that programs with
// another encoder need not build it.
package onnx
