"""The same sums by PyTorch, eager and compiled: one π for all pairs, both directions, blocks of rows against all rows.

Usage: python3 gpu/peers.py [NODES]. It prints the median of five, scaled to the pairs of 2,442,008 nodes.
"""
import sys
import time

import torch

PAPER = 2_442_008
nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 131_072
dim, block, pi = 768, 8192, 0.27
torch.manual_seed(1)
rows = (torch.randn(nodes, dim, device="cuda") / dim**0.5).bfloat16()
queries = (rows.float() * 4).bfloat16()


def sums(q: torch.Tensor) -> torch.Tensor:
    z = torch.matmul(q, rows.T).float() - 6
    loss = torch.nn.functional.softplus(z)
    sigma = torch.sigmoid(z)
    rest = 1 - pi * sigma
    psi = (1 - sigma) / rest
    return torch.stack([sigma.sum(), loss.sum(), -torch.log(rest).sum(), (psi * loss).sum(), ((1 - psi) * (loss - z)).sum()])


def measure(name: str, of) -> None:
    def all_pairs() -> torch.Tensor:
        total = torch.zeros(5, device="cuda", dtype=torch.float64)
        for first in range(0, nodes, block):
            total += of(queries[first : first + block]).double()
        return total

    all_pairs()
    torch.cuda.synchronize()
    took = []
    for _ in range(5):
        began = time.perf_counter()
        all_pairs()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
    took.sort()
    scaled = took[2] * PAPER * (PAPER - 1) / (nodes * nodes)
    print(f"{name}: {took[2]:.3f} s of {nodes} nodes; all pairs of {PAPER} nodes: {scaled:.1f} s", flush=True)


print("PyTorch", torch.__version__, torch.cuda.get_device_name(0))
measure("eager", sums)
measure("torch.compile", torch.compile(sums))


def top_hundred(of_all: int = 488_403, block: int = 4096, blocks: int = 12) -> None:
    """The hundred best of some nodes among all of the paper's, scaled to a fifth of them."""
    every = (torch.randn(PAPER, dim, device="cuda", dtype=torch.float16)) / dim**0.5
    weights = torch.randn(dim, device="cuda", dtype=torch.float16) + 4

    def one(first: int) -> torch.Tensor:
        return torch.topk(torch.matmul(every[first : first + block] * weights, every.T), 100, dim=1).indices

    took = []
    for at in range(blocks + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        one(at * block).cpu()
        took.append(time.perf_counter() - began)
    each = sorted(took[1:])[blocks // 2]
    print(f"topk: {each:.3f} s of {block} nodes; of {of_all} nodes: {each * of_all / block:.1f} s", flush=True)


top_hundred()
