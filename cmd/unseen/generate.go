package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/progress"
	"unseen/world"
)

// generateFlags is the command line of unseen generate.
type generateFlags struct {
	output        string
	shop          world.ShopSettings
	pairs         int
	quiet, asJSON bool
}

func newGenerate() *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate FOLDER",
		Short: "Write the clicks and impressions of a shop whose truth is known",
		Long: `Make people and items of whom everything is known, and write what a real shop
would have into a folder of tables:

  clicks.csv       who clicked what, and when
  impressions.csv  who was shown what, when and at which position
  items.csv        items with a category, a title and a time
  users.csv        people with a segment
  pairs.csv        pairs drawn at random, with what a real shop never knows:
                   whether the person wants the item (liked), and the
                   probabilities that they do and that they were shown it

People want items by their tastes. The shop shows each segment more of some
categories, popular items more often than others, and nothing before it is
there. What is wanted is clicked when it is first shown. So clicks alone say
what was shown as much as what is wanted. The same seed gives the same shop.`,
		Example: `  unseen generate raw
  unseen generate raw --people 10000 --items 2000 --impressions 80
  unseen import interactions --clicks raw/clicks.csv --items raw/items.csv \
    --users raw/users.csv --impressions raw/impressions.csv --log complete \
    -o shop`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("name a folder to write; for instance unseen generate raw")
			}
			f.output = args[0]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.pairs < 1 {
				return usagef("--pairs is %d; give at least 1", f.pairs)
			}
			made, err := f.run(cmd.Context(), newDisplay(cmd.ErrOrStderr(), f.quiet))
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, made, made.print)
		},
		ValidArgsFunction: oneFolder,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.shop.People, "people", 1000, "people")
	flags.IntVar(&f.shop.Items, "items", 300, "items")
	flags.IntVar(&f.shop.Segments, "segments", 4, "segments of people")
	flags.IntVar(&f.shop.Categories, "categories", 8, "categories of items")
	flags.Float64Var(&f.shop.Impressions, "impressions", 40, "mean number of showings of a person")
	flags.IntVar(&f.pairs, "pairs", 20_000, "pairs drawn at random for pairs.csv")
	flags.Uint64Var(&f.shop.Seed, "seed", 1, "seed of the shop")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, nil, "people", "items", "segments", "categories", "impressions", "pairs", "seed")
	return cmd
}

// writtenShop is what was written.
type writtenShop struct {
	Folder      string  `json:"folder"`
	People      int     `json:"people"`
	Items       int     `json:"items"`
	Impressions int     `json:"impressions"`
	Shown       int     `json:"shown"` // pairs
	Clicks      int     `json:"clicks"`
	Relevant    float64 `json:"relevant"`   // mean y of all pairs, by those drawn at random
	Propensity  float64 `json:"propensity"` // and mean π
}

func (f *generateFlags) run(ctx context.Context, show *display) (*writtenShop, error) {
	shop, err := world.NewShop(f.shop)
	if err != nil {
		return nil, err
	}
	if held, err := os.ReadDir(f.output); err == nil && len(held) > 0 {
		return nil, usagef("%s is not empty; give a new folder", f.output)
	}
	out := &writtenShop{Folder: f.output, People: len(shop.People), Items: len(shop.Items)}
	w := shopWriter{shop, out, progress.NewMeter(show.report, "showing items", int64(len(shop.People)))}
	err = atomicfile.WriteFolder(f.output, func(folder string) error {
		return w.write(ctx, folder, f.pairs)
	})
	return out, err
}

// shopWriter writes the tables of a shop, and counts what is in them.
type shopWriter struct {
	*world.Shop
	made  *writtenShop
	meter *progress.Meter
}

func (s shopWriter) write(ctx context.Context, folder string, pairs int) error {
	err := table(folder, "users.csv", []string{"user", "segment"}, func(w *csv.Writer) error {
		for i, p := range s.People {
			if err := w.Write([]string{person(i), fmt.Sprintf("segment %d", p.Segment+1)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = table(folder, "items.csv", []string{"item", "category", "title", "time"}, func(w *csv.Writer) error {
		for j, item := range s.Items {
			category, title := itemName(j, item.Category)
			if err := w.Write([]string{itemID(j), category, title, item.From.Format(time.DateTime)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.writeShown(ctx, folder); err != nil {
		return err
	}
	return s.writePairs(folder, pairs)
}

// writeShown writes what was shown and what was clicked.
func (s shopWriter) writeShown(ctx context.Context, folder string) error {
	return table(folder, "clicks.csv", []string{"user", "item", "time"}, func(clicks *csv.Writer) error {
		return table(folder, "impressions.csv", []string{"user", "item", "time", "position"},
			func(shown *csv.Writer) error {
				last, seen := 0, map[int]bool{}
				for x := range s.Shown {
					if x.Person != last {
						if err := ctx.Err(); err != nil {
							return err
						}
						s.meter.Add(int64(x.Person-last), nil)
						last = x.Person
						clear(seen)
					}
					if err := s.writeShowing(x, clicks, shown, seen); err != nil {
						return err
					}
				}
				return nil
			})
	})
}

// writeShowing writes one showing, and the click if there was one; seen are the person's items.
func (s shopWriter) writeShowing(x world.Showing, clicks, shown *csv.Writer, seen map[int]bool) error {
	s.made.Impressions++
	if !seen[x.Item] {
		s.made.Shown++
		seen[x.Item] = true
	}
	row := []string{person(x.Person), itemID(x.Item), x.At.Format(time.DateTime), strconv.Itoa(x.Position)}
	if err := shown.Write(row); err != nil || !x.Clicked {
		return err
	}
	s.made.Clicks++
	return clicks.Write(row[:3])
}

// writePairs writes pairs drawn at random, with the truth.
func (s shopWriter) writePairs(folder string, count int) error {
	head := []string{"user", "item", "liked", "relevance", "propensity"}
	return table(folder, "pairs.csv", head, func(w *csv.Writer) error {
		rng := rand.New(rand.NewPCG(s.Settings.Seed, 0x9a125))
		for range count {
			i, j := rng.IntN(len(s.People)), rng.IntN(len(s.Items))
			y, pi := s.Relevance(i, j), s.Propensity(i, j)
			s.made.Relevant += y / float64(count)
			s.made.Propensity += pi / float64(count)
			liked := "0"
			if s.Wants(i, j) {
				liked = "1"
			}
			if err := w.Write([]string{person(i), itemID(j), liked, strconv.FormatFloat(y, 'g', 6, 64),
				strconv.FormatFloat(pi, 'g', 6, 64)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// table writes a table in a folder that is not yet in its place.
func table(folder, name string, head []string, write func(*csv.Writer) error) error {
	file, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := bufio.NewWriterSize(file, 1<<16)
	rows := csv.NewWriter(buffer)
	if err := rows.Write(head); err != nil {
		return err
	}
	if err := write(rows); err != nil {
		return err
	}
	if rows.Flush(); rows.Error() != nil {
		return rows.Error()
	}
	if err := buffer.Flush(); err != nil {
		return err
	}
	return file.Close()
}

func person(i int) string { return fmt.Sprintf("u%05d", i+1) }
func itemID(j int) string { return fmt.Sprintf("i%05d", j+1) }

// What items are called.
var (
	shopWords = []struct{ category, first, second, third string }{
		{"kitchen", "kettle", "frying pan", "bread knife"}, {"garden", "spade", "watering can", "lantern"},
		{"music", "headphones", "record player", "guitar strings"}, {"books", "novel", "cookbook", "atlas"},
		{"sport", "running shoes", "tennis racket", "yoga mat"}, {"toys", "puzzle", "wooden train", "board game"},
		{"office", "desk lamp", "notebook", "fountain pen"}, {"travel", "backpack", "suitcase", "tent"},
		{"clothes", "rain jacket", "wool sweater", "scarf"}, {"tools", "hammer", "cordless drill", "spirit level"},
		{"beauty", "hand cream", "hair brush", "perfume"}, {"pets", "dog leash", "cat tree", "bird feeder"},
	}
	shopLooks = []string{"blue", "small", "classic", "light", "red", "sturdy", "green", "folding", "large", "simple",
		"black", "soft", "premium", "compact", "white", "bright"}
)

// itemName returns an item's category and title.
func itemName(item, category int) (name, title string) {
	words := shopWords[category%len(shopWords)]
	thing := []string{words.first, words.second, words.third}[item%3]
	name = words.category
	if round := category / len(shopWords); round > 0 {
		name = fmt.Sprintf("%s %d", name, round+1)
	}
	return name, fmt.Sprintf("%s %s no. %d", shopLooks[item/3%len(shopLooks)], thing, item+1)
}

// print says what there is and what to do with it.
func (g *writtenShop) print(w io.Writer) error {
	in := func(name string) string { return quoted(filepath.Join(g.Folder, name)) }
	_, err := fmt.Fprintf(w, `Wrote %s: a shop of %s people and %s items
  %s impressions of %s pairs, of which %s were clicked
  Of all pairs, %.1f%% were shown and %.1f%% are wanted (pairs.csv has the truth).

Next:  unseen import interactions --clicks %s \
         --items %s --users %s \
         --impressions %s --log complete -o shop
`, g.Folder, amount.Text(g.People), amount.Text(g.Items), amount.Text(g.Impressions), amount.Text(g.Shown),
		amount.Text(g.Clicks), 100*g.Propensity, 100*g.Relevant, in("clicks.csv"), in("items.csv"), in("users.csv"),
		in("impressions.csv"))
	return err
}
