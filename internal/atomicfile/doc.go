// Package atomicfile writes files such that a reader finds the old content or the new and never half
// of either, whatever happens: a full disk, a crash, a power failure.
//
//	.model.4711-0.tmp  ──write, sync──►  ──rename──►  model  ──sync the folder──►
//
// A write that fails removes its temporary file. One whose process was killed cannot, so the next
// write of the same path does: a temporary file is locked while it is written, and whoever gets the
// lock knows that its writer is dead. (Process numbers would not do: two containers that share a
// folder have the same ones. Nor would files without a name: such a file cannot replace one that has
// it.) The temporary files of other paths are never touched.
//
//	err := atomicfile.Write("model.safetensors", func(w io.Writer) error {
//		_, err := w.Write(content)
//		return err
//	})
//
// WriteFolder does the same for a folder of files.
package atomicfile
