// Delayed UCB1 on ten Bernoulli arms under a constant delay of 100: the plain C++ loop that belated is held
// against. Written as one would write it for exactly this game: no policy objects, no options, no recording.
//
//   g++ -O3 -march=native -std=c++17 reference.cpp -o reference
//   ./reference ROUNDS [xoshiro|philox] [REPEATS]
//
// Prints one line of JSON: the fastest of the repeats, and the pseudo-regret so that no work can be dropped.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

constexpr int kArms = 10;
constexpr int kDelay = 100;
constexpr double kTie = 1e-9;

/// Uniform double in [0, 1) from the upper 53 bits.
inline double to_unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

/// xoshiro256++ 1.0 (Blackman and Vigna), seeded by splitmix64.
class Xoshiro {
  public:
    explicit Xoshiro(std::uint64_t seed) {
        for (auto& word : state_) {
            std::uint64_t z = (seed += 0x9e3779b97f4a7c15ULL);
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
            word = z ^ (z >> 31);
        }
    }

    double unit(std::uint64_t /*round*/) {
        const std::uint64_t result = rotl(state_[0] + state_[3], 23) + state_[0];
        const std::uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = rotl(state_[3], 45);
        return to_unit(result);
    }

  private:
    static std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
    std::array<std::uint64_t, 4> state_{};
};

/// Philox4x32-10 (Salmon et al. 2011): the draw of a round is a function of (seed, round) alone.
class Philox {
  public:
    explicit Philox(std::uint64_t seed) : seed_(seed) {}

    double unit(std::uint64_t round) const {
        std::uint32_t c0 = static_cast<std::uint32_t>(round), c1 = static_cast<std::uint32_t>(round >> 32);
        std::uint32_t c2 = 0, c3 = 0;
        std::uint32_t k0 = static_cast<std::uint32_t>(seed_), k1 = static_cast<std::uint32_t>(seed_ >> 32);
        for (int step = 0; step < 10; ++step) {
            const std::uint64_t p0 = 0xD2511F53ULL * c0, p1 = 0xCD9E8D57ULL * c2;
            c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
            c1 = static_cast<std::uint32_t>(p1);
            c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
            c3 = static_cast<std::uint32_t>(p0);
            k0 += 0x9E3779B9U;
            k1 += 0xBB67AE85U;
        }
        return to_unit((static_cast<std::uint64_t>(c1) << 32) | c0);
    }

  private:
    std::uint64_t seed_;
};

struct Feedback {
    int action;
    double reward;
};

struct Outcome {
    double seconds;
    double regret;
};

template <class Draws>
Outcome play(std::int64_t rounds, std::uint64_t seed) {
    std::array<double, kArms> means{}, mean{}, observed{}, index{};
    std::array<std::int64_t, kArms> predicted{};
    for (int arm = 0; arm < kArms; ++arm) means[arm] = 0.05 * (kArms - arm);
    std::array<Feedback, kDelay> pending{};
    int slot = 0;
    double regret = 0.0;
    Draws draws(seed);

    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t t = 1; t <= rounds; ++t) {
        const double scale = 2.0 * std::log(static_cast<double>(t));
        double best = -std::numeric_limits<double>::infinity();
        for (int arm = 0; arm < kArms; ++arm) {
            index[arm] = observed[arm] > 0.0 ? mean[arm] + std::sqrt(scale / observed[arm])
                                             : std::numeric_limits<double>::infinity();
            best = std::max(best, index[arm]);
        }
        // Ties go to the arm predicted fewest times, outstanding predictions included, then to the lowest.
        int action = -1;
        for (int arm = 0; arm < kArms; ++arm) {
            if (index[arm] >= best - kTie && (action < 0 || predicted[arm] < predicted[action])) action = arm;
        }

        ++predicted[action];
        regret += means[0] - means[action];
        const double reward = draws.unit(static_cast<std::uint64_t>(t)) < means[action] ? 1.0 : 0.0;

        // The feedback of round t - 100 arrives at the end of round t: its slot is the one round t now takes.
        const Feedback arrived = pending[slot];
        pending[slot] = {action, reward};
        slot = slot + 1 == kDelay ? 0 : slot + 1;
        if (t > kDelay) {
            observed[arrived.action] += 1.0;
            mean[arrived.action] += (arrived.reward - mean[arrived.action]) / observed[arrived.action];
        }
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return {spent.count(), regret};
}

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s ROUNDS [xoshiro|philox] [REPEATS]\n", argv[0]);
        return 2;
    }
    const std::int64_t rounds = std::strtoll(argv[1], nullptr, 10);
    const bool philox = argc > 2 && std::string(argv[2]) == "philox";
    const int repeats = argc > 3 ? std::atoi(argv[3]) : 1;
    Outcome fastest{std::numeric_limits<double>::infinity(), 0.0};
    for (int repeat = 0; repeat < repeats; ++repeat) {
        const Outcome outcome = philox ? play<Philox>(rounds, 0) : play<Xoshiro>(rounds, 0);
        if (outcome.seconds < fastest.seconds) fastest = outcome;
    }
    std::printf("{\"decisions\": %lld, \"seconds\": %.9f, \"regret\": %.3f}\n", static_cast<long long>(rounds),
                fastest.seconds, fastest.regret);
    return 0;
}
