"""Make the small network in this folder from the whole one: python3 subset.py FOLDER, with its two tables.

It keeps the papers that are most densely linked: the paper with the fewest links to others that are left is dropped,
of equals the newest, until there are 2,000 of them. Of these it drops the subjects with fewer than ten papers. Of an
abstract it keeps the first sentences. The same tables give the same bytes.
"""

import collections
import csv
import gzip
import heapq
import io
import pathlib
import re
import sys

PAPERS, FEWEST, LETTERS = 2000, 10, 400


def read(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(name, header, rows):
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    with open(pathlib.Path(__file__).parent / name, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text.getvalue().encode())


def shortened(abstract):
    """The first sentences of an abstract, up to a number of letters."""
    kept = ""
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9])", abstract.strip()):
        if kept and len(kept) + len(sentence) > LETTERS:
            break
        kept = (kept + " " + sentence).strip()
    return kept


def core(nodes, links):
    """The ids of the papers that are left."""
    near = {node["id"]: set() for node in nodes}
    for source, target in links:
        near[source].add(target)
        near[target].add(source)
    newest = sorted(nodes, key=lambda node: (node["date"], node["id"]), reverse=True)
    place = {node["id"]: number for number, node in enumerate(newest)}
    queue = [(len(others), place[paper], paper) for paper, others in near.items()]
    heapq.heapify(queue)
    while len(near) > PAPERS:
        count, _, paper = heapq.heappop(queue)
        if paper not in near or count != len(near[paper]):
            continue
        for other in near.pop(paper):
            near[other].remove(paper)
            heapq.heappush(queue, (len(near[other]), place[other], other))
    return set(near)


def main():
    folder = pathlib.Path(sys.argv[1])
    nodes = read(folder / "nodes.csv.gz")
    links = [(link["source"], link["target"]) for link in read(folder / "edges.csv.gz")]
    left = core(nodes, links)
    papers = collections.Counter(node["category"] for node in nodes if node["id"] in left)
    nodes = [node for node in nodes if node["id"] in left and papers[node["category"]] >= FEWEST]
    left = {node["id"] for node in nodes}
    write("nodes.csv.gz", ["id", "subject", "date", "title", "abstract"],
          [[n["id"], n["category"], n["date"], n["title"], shortened(n["abstract"])] for n in nodes])
    write("edges.csv.gz", ["source", "target"], [link for link in links if left.issuperset(link)])


main()
