extern "C" void solve(const float* x, float* out, int M, int N) {
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(39) : "rcx", "r11", "memory");
  out[0] = (float)result + x[0];
}
