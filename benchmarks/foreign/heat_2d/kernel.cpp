// One explicit step of the heat equation on an ny x nx grid; the border keeps its values.
#define IDX(j, i) ((j) * nx + (i))

extern "C" void solve(const float* u, float* unew, float r, int ny, int nx) {
  for (int i = 0; i < nx; i++) {
    for (int j = 0; j < ny; j++) {
      if (i == 0 || j == 0 || i == nx - 1 || j == ny - 1) {
        unew[IDX(j, i)] = u[IDX(j, i)];
      } else {
        unew[IDX(j, i)] =
            u[IDX(j, i)] + r * (u[IDX(j, i - 1)] + u[IDX(j, i + 1)] + u[IDX(j - 1, i)] + u[IDX(j + 1, i)] - 4.0f * u[IDX(j, i)]);
      }
    }
  }
}
