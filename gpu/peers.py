"""The same sums by PyTorch, eager and compiled, both directions, blocks of rows against all rows: the panel with one π for
all pairs, with exposure of all terms, and the likelihood with its gradient.

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


source, target = torch.randn(nodes, device="cuda") / 2, torch.randn(nodes, device="cuda") / 2
weights = torch.full((dim,), 4.0, device="cuda", requires_grad=True)


def blocks():
    return (slice(first, first + block) for first in range(0, nodes, block))


def panel(z: torch.Tensor, pi: torch.Tensor | float) -> torch.Tensor:
    loss = torch.nn.functional.softplus(z)
    sigma = torch.sigmoid(z)
    rest = 1 - pi * sigma
    psi = (1 - sigma) / rest
    return torch.stack([sigma.sum(), loss.sum(), -torch.log(rest).sum(), (psi * loss).sum(), ((1 - psi) * (loss - z)).sum()])


def by_one(q: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return panel(torch.matmul(q, rows.T).float() - 6, pi)


def by_terms(q: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    z = torch.matmul(q, rows.T).float() - 6
    return panel(z, torch.sigmoid(0.3 * z + own[:, None] + target - 1))


def likelihood(q: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return -torch.log1p(-pi * torch.sigmoid(torch.matmul(q, rows.T).float() - 6)).sum()


def likelihood_by_terms(q: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    z = torch.matmul(q, rows.T).float() - 6
    return -torch.log1p(-torch.sigmoid(0.3 * z + own[:, None] + target - 1) * torch.sigmoid(z)).sum()


def forward(of) -> None:
    total = torch.zeros(5, device="cuda", dtype=torch.float64)
    for some in blocks():
        total += of(queries[some], source[some]).double()


def backward(of) -> None:
    weights.grad = None
    for some in blocks():
        of((rows[some].float() * weights).bfloat16(), source[some]).backward()


def measure(name: str, run, of) -> None:
    run(of)
    torch.cuda.synchronize()
    took = []
    for _ in range(5):
        began = time.perf_counter()
        run(of)
        torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
    took.sort()
    scaled = took[2] * PAPER * (PAPER - 1) / (nodes * nodes)
    print(f"{name}: {took[2]:.3f} s of {nodes} nodes; all pairs of {PAPER} nodes: {scaled:.1f} s", flush=True)


print("PyTorch", torch.__version__, torch.cuda.get_device_name(0))
for name, run, of in [
    ("panel, one π", forward, by_one),
    ("panel, exposure of all terms", forward, by_terms),
    ("likelihood and gradient, one π", backward, likelihood),
    ("likelihood and gradient, all terms", backward, likelihood_by_terms),
]:
    measure(name + ", eager", run, of)
    measure(name + ", torch.compile", run, torch.compile(of))


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
