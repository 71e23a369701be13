// Package model holds the two halves of what is learned about an ordered pair (i, j) of nodes, and
// the file that keeps them.
//
//	vectors h_i, h_j ──► LinkModel       z ──► ŷ = σ(z) = P(link | exposed)
//	                                                  ×                        = P(link is seen)
//	fields f_i, f_j  ──► PropensityModel s ──► π̂ = σ(s) = P(exposed)
//
// A model is a function from a pair to a logit. The parameters are a plain []float32 that the caller
// holds, so that optimisers and threads can keep several sets; a model itself never changes once
// made. Training passes one scalar per pair to it, ∂loss/∂logit:
//
//	link, err := model.NewDiagonal(model.NodesOf(g), false)
//	params := make([]float32, link.Size())
//	link.Start(params, rand.NewPCG(1, 0))
//	link.Logits(z, params, model.Batch{Sources: pairs.Source, Targets: pairs.Target})
//	link.Backward(grad, params, model.Batch{Sources: pairs.Source, Targets: pairs.Target}, dz)
//
// # Link models
//
//	diagonal         z = wᵀ(h_i⊙h_j) + b                     the paper's; symmetric
//	diagonal-field   the same + f[field_i, field_j]          learns exposure as relevance
//	low-rank         z = (A·h_i)ᵀ(B·h_j) + b                 directed: z_ij ≠ z_ji
//	mlp              z = v·SiLU(W·x + c) + b, x = (h_i⊙h_j, |h_i−h_j|), or h_i−h_j: directed
//	factors          z = ⟨u_i, v_j + A·h_j⟩ + b_i + b_j + b  people and items, with vectors or without
//	cosine           z = a·cos(h_i, h_j) + b                 a baseline that ranks without training
//	…+bonus          any of them + a constant where the fields differ
//
// # Propensity models
//
//	field-matrix     s = S[field_i, field_j]                 the paper's
//	low-rank-fields  s = a_f·b_g + u_f + v_g + c             for more fields than data
//	mlp              as above, with an embedding of either field added to W·x
//	known            s from a table of logged or known exposure probabilities
//	constant         π̂ = 1, or another number: no correction
//	…+popularity     any of them + α·log(1 + in-degree of the target)
//	…+age            any of them + β·(decades from the target to the source)
//
// [NewLink] and [NewPropensity] make them by these names. Some models can do more, and say so with a
// small interface: [InnerProduct] (retrieval by inner-product search), [VectorQuery] (also for new sources),
// [Layout] (names for the parts of the parameters), [DensePropensity] (logits of whole blocks of pairs at once).
//
// # Files
//
// [Save] writes a [Model] as one safetensors file, which Python reads with
// safetensors.numpy.load_file, and [Open] reads it back. The weights are float32 tensors with the
// names of the parts, such as link.w and propensity.logits; everything else is in the metadata.
//
// # Errors and panics
//
// What can come from data, options or files is an error that wraps one of this package's sentinels
// and says what to do. Lengths and node indices in a call of Logits, Backward or Query come from the
// program: as with a slice, a value out of range panics.
package model
