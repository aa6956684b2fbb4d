// Finite impulse response: out[n] = sum over k of taps[k] * signal[n - k]; before the start there is silence.
extern "C" void solve(const float* signal, const float* taps, float* out, int N, int T) {
  for (int n = 0; n < N; ++n) {
    float y = 0.0f;
    for (int k = 0; k < T; ++k) {
      if (n - k < 0) break;
      y += taps[k] * signal[n - k];
    }
    out[n] = y;
  }
}
