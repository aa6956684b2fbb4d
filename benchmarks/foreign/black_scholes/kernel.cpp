// Price of European call and put options by Black and Scholes.
#include <cmath>

double normal_cdf(double z) { return 0.5 * erfc(-z / sqrt(2.0)); }

extern "C" void solve(const float* spot, const float* strike, const float* years, float* call, float* put, float rate, float volatility, int N) {
  for (int i = 0; i < N; i++) {
    double S = spot[i], K = strike[i], T = years[i];
    double d1 = (log(S / K) + (rate + volatility * volatility / 2.0) * T) / (volatility * sqrt(T));
    double d2 = d1 - volatility * sqrt(T);
    call[i] = S * normal_cdf(d1) - K * exp(-rate * T) * normal_cdf(d2);
    put[i] = K * exp(-rate * T) * normal_cdf(-d2) - S * normal_cdf(-d1);
  }
}
