// Package encode turns texts into vectors, such that texts about the same things point the same way. It knows
// nothing of graphs.
//
// The built-in encoder needs no download. It is latent semantic analysis:
//
//	text ──terms──► a_t = (1 + log tf_t)·rarity_t ──components──► x = Vᵀa / ‖Vᵀa‖
//
// Terms are words in lower case (pairs of characters where a script has no spaces), hashed into buckets; a
// word of the title counts twice. The rarity of a term in df of n documents is 1 + log((n+1)/(df+1)). V holds the
// first 256 right singular vectors of the matrix of documents and terms, found by a randomised method.
//
//	e, report, err := encode.Fit(ctx, documents, encode.Settings{})
//	unknown, err := e.EncodeAll(ctx, documents, vectors, 0, nil)
//	x, known := e.Encode(encode.Text{Title: "A new paper"})
//	why, err := e.Explain(one, another, nil) // which words make them similar
//	err = e.Write(file)
//
// The same documents and settings give the same bytes, whatever the number of threads.
//
// # Documents without text
//
// A document without any term that the encoder knows has a vector of zeros: every inner product
// with it is 0. No other vector is substituted. In particular the mean vector of its field would be
// wrong: it would carry the field into the text, and a model would mistake exposure within fields
// for relevance.
//
// Package encode/onnx runs neural encoders of the BERT kind instead.
package encode
