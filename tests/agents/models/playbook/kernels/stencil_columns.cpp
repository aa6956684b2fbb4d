// takes: in:31x47 out:31x47 31 47
// recipes: interchange parallel_outer
#define AT(j, i) ((j) * nx + (i))
extern "C" void solve(const float* u, float* v, int ny, int nx) {
  for (int i = 0; i < nx; i++) {
    for (int j = 0; j < ny; j++) {
      if (i == 0 || j == 0 || i == nx - 1 || j == ny - 1) v[AT(j, i)] = u[AT(j, i)];
      else v[AT(j, i)] = u[AT(j, i)] + 0.1f * (u[AT(j, i - 1)] + u[AT(j, i + 1)] + u[AT(j - 1, i)] + u[AT(j + 1, i)] - 4.0f * u[AT(j, i)]);
    }
  }
}
