// Delayed UCB1 on ten Bernoulli arms under a constant delay of 100, W replications side by side: a round of each in turn,
// with everything laid out by lane, so that the compiler uses vector instructions across replications. The limit that the
// loop of belated is held against where there are many replications. Written for exactly this game, like reference.cpp.
//
//   g++ -O3 -march=native -ffast-math -std=c++17 lanes.cpp -o lanes
//   ./lanes ROUNDS [1|4|32] [REPEATS]
//
// ROUNDS counts the rounds of all replications together. Prints one line of JSON: the fastest of the repeats, and the
// mean pseudo-regret of a replication, so that no work can be dropped.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

constexpr int kArms = 10;
constexpr int kDelay = 100;
constexpr double kTie = 1e-9;
constexpr double kUnseen = 1e9;  // in the place of infinity, which -ffast-math does not know

struct Outcome {
    double seconds;
    double regret;
};

/// splitmix64 of a counter: the draw of a round is a function of (replication, round) alone, as belated's are.
inline double unit(std::uint64_t counter) {
    std::uint64_t z = counter * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<double>(static_cast<std::int64_t>((z ^ (z >> 31)) >> 11)) * 0x1.0p-53;
}

template <int W>
Outcome play(std::int64_t rounds) {
    static double mean[kArms][W], radius[kArms][W], total[kArms][W], seen[kArms][W], predicted[kArms][W];
    static double reward[kDelay][W];
    static std::int64_t pending[kDelay][W];
    double means[kArms], best[W], regret[W] = {};
    std::int64_t action[W];
    for (int arm = 0; arm < kArms; ++arm) {
        means[arm] = 0.05 * (kArms - arm);
        for (int lane = 0; lane < W; ++lane) {
            mean[arm][lane] = kUnseen;
            radius[arm][lane] = total[arm][lane] = seen[arm][lane] = predicted[arm][lane] = 0.0;
        }
    }
    int slot = 0;
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t t = 1; t <= rounds; ++t) {
        const double width = std::sqrt(2.0 * std::log(static_cast<double>(t)));
        for (int lane = 0; lane < W; ++lane) best[lane] = mean[0][lane] + width * radius[0][lane];
        for (int arm = 1; arm < kArms; ++arm)
            for (int lane = 0; lane < W; ++lane)
                best[lane] = std::max(best[lane], mean[arm][lane] + width * radius[arm][lane]);
        // Ties go to the arm predicted fewest times, outstanding predictions included, then to the lowest.
        double fewest[W];
        for (int lane = 0; lane < W; ++lane) {
            fewest[lane] = std::numeric_limits<double>::max();
            action[lane] = 0;
        }
        for (int arm = 0; arm < kArms; ++arm)
            for (int lane = 0; lane < W; ++lane) {
                const bool take = mean[arm][lane] + width * radius[arm][lane] >= best[lane] - kTie &&
                                  predicted[arm][lane] < fewest[lane];
                fewest[lane] = take ? predicted[arm][lane] : fewest[lane];
                action[lane] = take ? arm : action[lane];
            }
        for (int lane = 0; lane < W; ++lane) {
            const std::int64_t arm = action[lane];
            predicted[arm][lane] += 1.0;
            regret[lane] += means[0] - means[arm];
            const std::int64_t arrived = pending[slot][lane];
            const double paid = reward[slot][lane];
            pending[slot][lane] = arm;
            reward[slot][lane] = unit(static_cast<std::uint64_t>(t) * W + lane) < means[arm] ? 1.0 : 0.0;
            if (t > kDelay) {
                const double count = seen[arrived][lane] += 1.0;
                const double sum = total[arrived][lane] += paid;
                mean[arrived][lane] = sum / count;
                radius[arrived][lane] = 1.0 / std::sqrt(count);
            }
        }
        slot = slot + 1 == kDelay ? 0 : slot + 1;
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    double sum = 0.0;
    for (int lane = 0; lane < W; ++lane) sum += regret[lane];
    return {spent.count(), sum / W};
}

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s ROUNDS [1|4|32] [REPEATS]\n", argv[0]);
        return 2;
    }
    const std::int64_t rounds = std::strtoll(argv[1], nullptr, 10);
    const int lanes = argc > 2 ? std::atoi(argv[2]) : 32;
    const int repeats = argc > 3 ? std::atoi(argv[3]) : 1;
    Outcome fastest{std::numeric_limits<double>::infinity(), 0.0};
    for (int repeat = 0; repeat < repeats; ++repeat) {
        const Outcome outcome = lanes == 1   ? play<1>(rounds)
                                : lanes == 4 ? play<4>(rounds / 4)
                                             : play<32>(rounds / 32);
        if (outcome.seconds < fastest.seconds) fastest = outcome;
    }
    const std::int64_t width = lanes == 1 || lanes == 4 ? lanes : 32;
    std::printf("{\"decisions\": %lld, \"seconds\": %.9f, \"regret\": %.3f}\n",
                static_cast<long long>(rounds / width * width), fastest.seconds, fastest.regret);
    return 0;
}
