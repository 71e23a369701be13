package serve

import "io/fs"

// vendored is the folder of third-party scripts.
const vendored = "pages/assets/vendor"

// Scripts returns the third-party scripts of the pages, which are part of the binary, with their licences. A file is
// named after its package and version: htmx-4.0.0.min.js.
func Scripts() fs.FS {
	folder, err := fs.Sub(pageFiles, vendored)
	if err != nil {
		panic(err) // the name is valid
	}
	return folder
}
