// Many small matrix products: C[b] = A[b] * B[b], all S x S.
namespace {

struct Matrix {
  const float* data;
  int size;
  float operator()(int row, int column) const { return data[row * size + column]; }
};

void multiply(const Matrix& a, const Matrix& b, float* c) {
  for (int row = 0; row < a.size; ++row) {
    for (int column = 0; column < a.size; ++column) {
      float sum = 0.0f;
      for (int k = 0; k < a.size; ++k) sum += a(row, k) * b(k, column);
      c[row * a.size + column] = sum;
    }
  }
}

}  // namespace

extern "C" void solve(const float* a, const float* b, float* c, int batch, int S) {
  for (int n = 0; n < batch; ++n) {
    const long offset = static_cast<long>(n) * S * S;
    multiply(Matrix{a + offset, S}, Matrix{b + offset, S}, c + offset);
  }
}
