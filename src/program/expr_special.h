// Special functions of plain doubles with control flow: inverse error function, digamma and its derivatives, modified Bessel
// functions. Float lanes go through double, which keeps all their digits.
#if defined(FACULA_EXPR_SPECIAL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACULA_EXPR_SPECIAL_H_
#undef FACULA_EXPR_SPECIAL_H_
#else
#define FACULA_EXPR_SPECIAL_H_
#endif

#include "program/expr_scalar.h"

FACULA_EXPR_BEGIN
namespace special {

// A first guess in closed form, then two steps of Halley's method. Next to 1 the steps look at erfc, which still has digits there.
FACULA_DEVICE double erfinv(double y) {
  const double a = m::abs(y);
  if (!(a < 1.0)) return a == 1.0 ? m::copysign(m::infinity(0.0), y) : m::not_a_number(0.0);
  const double shape = 0.147, tail = m::log1p(-a) + m::log1p(a);
  const double t = 2.0 / (3.14159265358979323846 * shape) + 0.5 * tail;
  double x = m::sqrt(m::sqrt(t * t - tail / shape) - t);
  for (int step = 0; step < 2; ++step) {
    const double error = a > 0.5 ? (1.0 - a) - m::erfc(x) : m::erf(x) - a;
    const double newton = error / (1.12837916709551257390 * m::exp(-x * x));
    x -= newton / (1.0 + x * newton);
  }
  return m::copysign(x, y);
}

// Moves up to x >= 10 and sums the asymptotic series there; negative x by reflection.
FACULA_DEVICE double digamma(double x) {
  const double pi = 3.14159265358979323846;
  if (x == 0.0) return m::copysign(m::infinity(0.0), -x);
  double sum = 0.0;
  if (x < 0.0) {
    const double whole = m::trunc(x), part = x - whole;
    if (part == 0.0) return m::not_a_number(0.0);
    // tan has period pi, so only the fraction enters.
    sum = -pi / m::tan(pi * part);
    x = 1.0 - x;
  }
  if (x > 1e300) return sum + m::log(x);
  while (x < 10.0) {
    sum -= 1.0 / x;
    x += 1.0;
  }
  const double z = 1.0 / (x * x);
  const double series =
      z *
      (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return sum + m::log(x) - 0.5 / x - series;
}

// x to the power of -s; s = 1 and 2 are those of the trigamma function.
FACULA_DEVICE double inverse_power(double x, double s) {
  return s == 1.0 ? 1.0 / x : s == 2.0 ? 1.0 / (x * x) : m::pow(x, -s);
}

// `sum` and the sum of (x + k)^-s over k = 0, 1, ... for x > 0 and s >= 2: first terms one by one, the rest by the Euler-Maclaurin
// formula, whose terms shrink fast once x is larger than s.
FACULA_DEVICE double hurwitz_zeta(double s, double x, double sum = 0.0) {
  // B_2j / (2j)!
  constexpr double c[] = {8.3333333333333333e-2,  -1.3888888888888889e-3,  3.3068783068783069e-5,
                          -8.2671957671957672e-7, 2.0876756987868099e-8,   -5.2841901386874932e-10,
                          1.3382536530684679e-11, -3.3896802963225829e-13, 8.5860620562778446e-15,
                          -2.1748686985580619e-16};
  while (x < s + 8.0) {
    const double term = inverse_power(x, s);
    sum += term;
    if (term * x <= 1e-17 * sum) return sum;  // more than all that follows
    x += 1.0;
  }
  const double z = 1.0 / x;
  double rest = 1.0 / (s - 1.0) + 0.5 * z, factor = s * z * z;
  for (int j = 0; j < 10; ++j) {
    rest += c[j] * factor;
    factor *= (s + (2 * j + 1)) * (s + (2 * j + 2)) * z * z;
  }
  return sum + inverse_power(x, s - 1.0) * rest;
}

// The n-th derivative of digamma is (-1)^(n+1) n! times the sum of (x + k)^-s over k >= 0, s = n + 1. Where x is negative, terms are added
// until x + k is not. Where they would be many, it is the sum over all integers k, which only depends on the fraction of x, less the sum
// over k < 0.
FACULA_DEVICE double polygamma(double x, double n) {
  if (n == 0.0) return digamma(x);
  // Orders are whole numbers; the factorial of larger ones is beyond double.
  if (!(n > 0.0 && n <= 170.0) || n != m::trunc(n) || x != x) return m::infinity(0.0) * 0.0;
  const double s = n + 1.0, whole = m::trunc(x);
  const double sign = m::fmod(n, 2.0) == 1.0 ? 1.0 : -1.0;  // of a negative number's power -s
  double sum = 0.0;
  if (x <= 0.0 && x == whole) {
    sum = m::infinity(0.0);
  } else if (x < -32.0) {
    const double part = whole - x;
    sum = hurwitz_zeta(s, 1.0 - part) + sign * (hurwitz_zeta(s, part) - hurwitz_zeta(s, 1.0 - x));
  } else {
    for (; x < 0.0; x += 1.0) sum += sign * inverse_power(-x, s);
    sum = hurwitz_zeta(s, x, sum);
  }
  double factorial = 1.0;
  for (double k = 2.0; k <= n && k <= 171.0; k += 1.0) factorial *= k;
  return sign * factorial * sum;
}

// Sum of c[k] T_k(t), by Clenshaw's recurrence.
template <int N>
FACULA_DEVICE double chebyshev(const double (&c)[N], double t) {
  double next = 0.0, after = 0.0;
  for (int k = N - 1; k > 0; --k) {
    const double now = 2.0 * t * next - after + c[k];
    after = next;
    next = now;
  }
  return t * next - after + c[0];
}

// e^-|x| I0(x): a series in x below 8, in 1/x above.
FACULA_DEVICE double i0e(double x) {
  constexpr double near[] = {
      0.33839763720473804,    -0.3046826723431984,     0.17162090152220878,    -0.094901097048047644,
      0.049305284239670708,   -0.023737414805899469,   0.010546460394594998,   -0.0043243099950505759,
      0.0016394756169413358,  -0.00057637557453858237, 0.00018850288509584166, -5.7541950100821037e-5,
      1.6448448070728897e-5,  -4.4167383584587506e-6,  1.1173875391201037e-6,  -2.6707938539406117e-7,
      6.0469950225419189e-8,  -1.300025009986248e-8,   2.6598237246823867e-9,  -5.1897956016352629e-10,
      9.6758090353732369e-11, -1.7268262914415557e-11, 2.9550526631296398e-12, -4.8564467831119295e-13,
      7.6761854986049356e-14, -1.1685332877993452e-14, 1.715391285555133e-15,  -2.4312798465479547e-16,
      3.3307945188222381e-17, -4.4153416464793394e-18};
  constexpr double far[] = {
      0.40224520550705442,     0.0033691164782556941,   6.889758346916824e-5,    2.8913705208347565e-6,
      2.0489185894690637e-7,   2.2666689904981781e-8,   3.3962320257083863e-9,   4.9406023882249696e-10,
      1.1889147107846438e-11,  -3.1499165279632414e-11, -1.3215811840447713e-11, -1.7941785315068061e-12,
      7.1801244513836662e-13,  3.8527783827421427e-13,  1.5400862175214098e-14,  -4.1505693472872221e-14,
      -9.5548466988283076e-15, 3.8116806693526224e-15,  1.7725601330565264e-15,  -3.4254856196772191e-16,
      -2.8276239805165835e-16, 3.4612228676974611e-17,  4.46562142029676e-17,    -4.8305044859441821e-18,
      -7.233180487874754e-18};
  const double a = m::abs(x);
  if (a <= 8.0) return chebyshev(near, a * 0.25 - 1.0);
  return chebyshev(far, 16.0 / a - 1.0) / m::sqrt(a);
}

// e^-|x| I1(x)
FACULA_DEVICE double i1e(double x) {
  constexpr double near[] = {
      0.12629359322181683,    -0.17641651835783406,    0.1026436586898471,     -0.052945981208094991,
      0.024726449030626517,   -0.010564084894626198,   0.0041564229443128882,  -0.0015135724506312531,
      0.00051228595616857577, -0.00016176081582589675, 4.7815651075500542e-5,  -1.3273163656039436e-5,
      3.4702513081376785e-6,  -8.5687202646954547e-7,  2.0032947535521353e-7,  -4.4450591287963281e-8,
      9.3815373864957718e-9,  -1.8872497517228293e-9,  3.625590281552117e-10,  -6.6634897235020277e-11,
      1.1736186298890902e-11, -1.9839743977649437e-12, 3.2237933659455747e-13, -5.0421855047279117e-14,
      7.6006842947354069e-15, -1.1055969477353863e-15, 1.5536319577362005e-16, -2.1114212143581661e-17,
      2.7779141127610464e-18};
  constexpr double far[] = {
      0.38928811750914006,     -0.0097610974913614684,  -0.00011058893876262372, -3.8825648088776904e-6,
      -2.5122362378702089e-7,  -2.6314688468895195e-8,  -3.835380385964237e-9,   -5.5897434621965838e-10,
      -1.8974958123505412e-11, 3.2526035830154882e-11,  1.4125807436613781e-11,  2.0356285441470895e-12,
      -7.1985517762459085e-13, -4.0835511110921973e-13, -2.1015418427726643e-14, 4.2724400167119514e-14,
      1.0420276984128803e-14,  -3.8144030724370078e-15, -1.8803547755107824e-15, 3.3082023109209283e-16,
      2.9626289976459501e-16,  -3.209525921993424e-17,  -4.6503053684893583e-17, 4.4143483230717079e-18,
      7.5172963108421048e-18,  -9.3141788673268834e-19, -1.242193275194891e-18};
  const double a = m::abs(x);
  const double y = a <= 8.0 ? a * chebyshev(near, a * 0.25 - 1.0) : chebyshev(far, 16.0 / a - 1.0) / m::sqrt(a);
  return x < 0.0 ? -y : y;
}

// Two factors of e^(|x|/2): the exponential alone overflows before the function does.
FACULA_DEVICE double i0(double x) {
  const double h = m::exp(0.5 * m::abs(x));
  return m::isinf(x) ? m::infinity(0.0) : (h * i0e(x)) * h;
}
FACULA_DEVICE double i1(double x) {
  const double h = m::exp(0.5 * m::abs(x));
  return m::isinf(x) ? x : (h * i1e(x)) * h;
}

}  // namespace special
FACULA_EXPR_END
#endif
