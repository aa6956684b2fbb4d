
#if defined(__x86_64__) || defined(__i386__)
/* clflushopt, which does not wait for the line before; processors without it ignore the prefix. */
#define PUT_OUT(line) __asm__ volatile(".byte 0x66; clflush %0" : : "m"(*(line)) : "memory")
#define FENCE __asm__ volatile("mfence" : : : "memory")
#elif defined(__aarch64__)
#define PUT_OUT(line) __asm__ volatile("dc civac, %0" : : "r"(line) : "memory")
#define FENCE __asm__ volatile("dsb sy" : : : "memory")
#else
#error "kernels are timed with cold caches, and programs can empty them on x86 and 64-bit Arm alone"
#endif
/* Evict these bytes from all caches, in whichever process they are mapped; done at the next FENCE. */
static void evict(const char *memory, long long bytes) {
  long long i;
  for (i = 0; i < bytes; i += 64) PUT_OUT(memory + i);
  if (bytes > 0) PUT_OUT(memory + bytes - 1);
}

#ifdef __cplusplus
extern "C"
#endif
__attribute__((visibility("default"))) void flush(const char *memory, long long bytes) {
  evict(memory, bytes);
  FENCE;
}
