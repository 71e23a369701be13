package kern

// Held is a matrix that a type of another package is made of. A type that embeds it under an unexported name keeps the
// matrix out of its exported API, and packages of this module still reach the rows with MatrixOf.
type Held struct{ matrix *Matrix }

// Hold puts a matrix into what is made of it.
func Hold(m *Matrix) Held { return Held{m} }

func (h Held) held() *Matrix { return h.matrix }

// MatrixOf returns the matrix that something is made of, such as the rows of a *graph.Vectors.
func MatrixOf(v interface{ held() *Matrix }) *Matrix { return v.held() }

// HeldCodes are codes that a type of another package is made of, as Held is a matrix.
type HeldCodes struct{ codes *Codes }

// HoldCodes puts codes into what is made of them.
func HoldCodes(c *Codes) HeldCodes { return HeldCodes{c} }

func (h HeldCodes) heldCodes() *Codes { return h.codes }

// CodesIn returns the codes that something is made of, such as an *engine.Sketch.
func CodesIn(v interface{ heldCodes() *Codes }) *Codes { return v.heldCodes() }
