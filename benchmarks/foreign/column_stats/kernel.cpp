// Mean and variance of each column of a table: samples in rows, features in columns.
extern "C" void solve(const float* data, float* mean, float* variance, int samples, int features) {
  for (int f = 0; f < features; f++) {
    double sum = 0.0;
    for (int s = 0; s < samples; s++) {
      sum += data[s * features + f];
    }
    double m = sum / samples;
    double squares = 0.0;
    for (int s = 0; s < samples; s++) {
      double d = data[s * features + f] - m;
      squares += d * d;
    }
    mean[f] = m;
    variance[f] = squares / samples;
  }
}
