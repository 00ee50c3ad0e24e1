// Switching stacks, in assembly for x86-64 and aarch64: saves what a called function must keep, and nothing else.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstring>

extern "C" void simgpu_switch(void** save_stack_pointer, void* to_stack_pointer);

#if defined(__x86_64__)
asm(R"(
  .text
  .globl simgpu_switch
  .hidden simgpu_switch
  .type simgpu_switch, @function
simgpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size simgpu_switch, .-simgpu_switch
)");

// A stack on which `entry` begins when it is switched to. `top` is a multiple of 16.
inline void* simgpu_new_fiber(char* top, void (*entry)()) {
  auto* words = reinterpret_cast<void**>(top);
  *--words = nullptr;  // where a caller's return address would be, so that the stack is aligned as after a call
  *--words = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--words = nullptr;
  return words;
}

// Makes the interrupted thread go on in `entry`, on an empty stack.
inline void simgpu_resume_at(ucontext_t* machine, char* top, void (*entry)()) {
  machine->uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(top - 8);
  machine->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(entry);
}

// An integer division by zero is no fault on a GPU: it gives all ones. Steps over the instruction.
inline bool simgpu_skip_division(ucontext_t* machine) {
  auto* at = reinterpret_cast<const uint8_t*>(machine->uc_mcontext.gregs[REG_RIP]);
  size_t n = 0;
  if (at[n] == 0x66) ++n;
  if ((at[n] & 0xf0) == 0x40) ++n;
  if ((at[n] & 0xfe) != 0xf6) return false;
  ++n;
  const uint8_t form = at[n++], mode = form >> 6, rm = form & 7, op = form >> 3 & 7;
  if (op != 6 && op != 7) return false;
  if (mode != 3 && rm == 4) {
    if (mode == 0 && (at[n] & 7) == 5) n += 4;
    ++n;
  } else if (mode == 0 && rm == 5) {
    n += 4;
  }
  if (mode == 1) n += 1;
  if (mode == 2) n += 4;
  machine->uc_mcontext.gregs[REG_RIP] += static_cast<greg_t>(n);
  machine->uc_mcontext.gregs[REG_RAX] = -1;
  machine->uc_mcontext.gregs[REG_RDX] = -1;
  return true;
}

#elif defined(__aarch64__)
asm(R"(
  .text
  .globl simgpu_switch
  .hidden simgpu_switch
  .type simgpu_switch, %function
simgpu_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size simgpu_switch, .-simgpu_switch
)");

inline void* simgpu_new_fiber(char* top, void (*entry)()) {
  char* frame = top - 160;
  std::memset(frame, 0, 160);
  reinterpret_cast<void**>(frame)[11] = reinterpret_cast<void*>(entry);  // the return address
  return frame;
}

inline void simgpu_resume_at(ucontext_t* machine, char* top, void (*entry)()) {
  machine->uc_mcontext.sp = reinterpret_cast<uint64_t>(top);
  machine->uc_mcontext.pc = reinterpret_cast<uint64_t>(entry);
}

inline bool simgpu_skip_division(ucontext_t*) { return false; }

#else
#error "The software GPU switches stacks on x86-64 and aarch64 only"
#endif
