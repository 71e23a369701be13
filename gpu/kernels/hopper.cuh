// What kernels of Hopper cards share: barriers, the copy engine and the matrix units.

struct alignas(64) TensorMap { u64 opaque[16]; }; // CUtensorMap

__device__ __forceinline__ u32 shared(const void *p) { return u32(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void barrierInit(u32 bar, u32 count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count)); }
__device__ __forceinline__ void barrierExpect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrierArrive(u32 bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ __forceinline__ void barrierWait(u32 bar, u32 phase) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(bar), "r"(phase) : "memory");
}

// fetch copies a box of kTile rows by kDepth numbers.
__device__ __forceinline__ void fetch(u32 to, const TensorMap *map, u32 bar, int k, int row) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(k), "r"(row) : "memory");
}

// descriptor names rows of 128 bytes in shared memory, swizzled as the copy engine leaves them.
__device__ __forceinline__ u64 descriptor(u32 address) {
  return u64((address & 0x3ffff) >> 4) | u64(1) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}

#define REG8(a, o) "+f"(a[o]), "+f"(a[o + 1]), "+f"(a[o + 2]), "+f"(a[o + 3]), "+f"(a[o + 4]), "+f"(a[o + 5]), "+f"(a[o + 6]), "+f"(a[o + 7])
#define REG64(a) REG8(a, 0), REG8(a, 8), REG8(a, 16), REG8(a, 24), REG8(a, 32), REG8(a, 40), REG8(a, 48), REG8(a, 56)
#define REG128(a) REG64(a), REG8(a, 64), REG8(a, 72), REG8(a, 80), REG8(a, 88), REG8(a, 96), REG8(a, 104), REG8(a, 112), REG8(a, 120)

#define LIST128 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26," \
  "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51," \
  "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76," \
  "%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100," \
  "%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120," \
  "%121,%122,%123,%124,%125,%126,%127}"

__device__ __forceinline__ void productFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void productCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft> __device__ __forceinline__ void productWait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory"); }

// Ring is a place in a ring of buffers, and how often it has come around.
template <int kCount> struct Ring {
  u32 at = 0, phase = 0;
  __device__ __forceinline__ void next() {
    if (++at == kCount) at = 0, phase ^= 1;
  }
};

#define LIST64                                                                                                         \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"    \
  "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"    \
  "%58,%59,%60,%61,%62,%63}"

template <bool kHalf>
__device__ __forceinline__ void product(float (&acc)[64], u64 a, u64 b, int keep) {
  if (kHalf)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " LIST64 ", %64, %65, p, 1, 1, 0, 0;\n}" : REG64(acc) : "l"(a), "l"(b), "r"(keep));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " LIST64 ", %64, %65, p, 1, 1, 0, 0;\n}" : REG64(acc) : "l"(a), "l"(b), "r"(keep));
}
