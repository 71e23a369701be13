// Package dataset is a network on disk: one folder of files that Go and Python read alike.
//
//	papers/
//	  dataset.json         counts, checksums, names of fields, what made it and how
//	  nodes.parquet        id, field?, title?, text?, time?, role?         one row per node
//	  links.parquet        source, target, time?                           row numbers of nodes.parquet
//	  exposures.parquet    source, target, shown?, exposed, linked, …      optional: what is known to be shown
//	  vectors.npy          float32 or float16, nodes × dimension, C order  optional: row i is node i's
//	  encoder.safetensors  what made the vectors from the texts            optional: makes those of new texts
//
//	_, err := dataset.Write(ctx, "papers", dataset.Content{Graph: g}, dataset.WriteOptions{})
//	d, err := dataset.Open(ctx, "papers", dataset.OpenOptions{})
//	defer d.Close()
//	g := d.Graph()         // with vectors, mapped and not read
//	text, err := d.Text(0) // read when needed
//
// and in Python
//
//	nodes = pandas.read_parquet("papers/nodes.parquet")
//	links = pandas.read_parquet("papers/links.parquet")
//	vectors = numpy.load("papers/vectors.npy", mmap_mode="r")
//	scores = (vectors[links.source] * vectors[links.target]).sum(axis=1)
//	named = links.assign(source=nodes.id.values[links.source], target=nodes.id.values[links.target])
//
// # Links are row numbers
//
// Write stores the ends of a link as row numbers of nodes.parquet, int64. They index vectors, nodes and
// sparse matrices as they are, which is what a program in Python does with links most often; ids are one
// line away, as above. Sorted row numbers also take little space, and need no lookup. The
// price is that nodes.parquet must keep its order, which the checksum watches.
//
// Open accepts both: a column of text holds ids, a column of whole numbers holds row numbers. So ids are
// always text, also where they look like numbers ("00003" is not 3), and a table whose ids are stored as
// numbers is refused with the line that fixes it.
//
// # People and items
//
// The column role says who links and what is linked to: "source" for people, "target" for items, empty for nodes that
// are both, as papers are. A table without it holds nodes that are both. Links and exposures may have times; exposures
// also a count (how often the pair was shown), a position and a surface. Write stores such columns only where something
// is known.
//
// # Datasets from elsewhere
//
// A folder with nodes.parquet and links.parquet is a dataset, whatever program wrote it. Other columns than
// those above are ignored, the order of columns is free, strings may be dictionaries (pandas categories),
// times may be timestamps of any unit, with or without a zone (then UTC), or dates. Without dataset.json
// there are no checksums, so all vectors are read when it is opened. [Dataset.WriteVectors] puts vectors
// and a manifest beside such tables and leaves them as they are. Writing the dataset once makes a manifest too:
//
//	c, err := d.Content(ctx)
//	_, err = dataset.Write(ctx, "sealed", c, dataset.WriteOptions{})
//
// # What is checked when
//
// Write reads every vector and refuses one that is not finite; dataset.json keeps that, and the size and
// SHA-256 of every file. Open compares the sizes, and the sums of files up to 64 MiB, and otherwise trusts the
// manifest, so that gigabytes of vectors open at once. OpenOptions.Verify, and [Check], read everything.
// What differs is an [Error] that names the file, the row, the column and what to do.
//
// A missing value is an empty string and the other way round: a node with an empty title has none. Times
// are kept to the second, as in package graph.
//
// # Nothing half-written
//
// Write fills a temporary folder beside the target, syncs it and renames it. An old dataset is
// exchanged in one step where the system can do that (Linux, macOS); elsewhere there is a moment between
// two renames when neither has the name, and a power cut within it is repaired by the next Write. An open
// Dataset keeps reading the old files on Unix; Windows refuses to replace files that are open.
package dataset
