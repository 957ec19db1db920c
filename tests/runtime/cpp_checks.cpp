/* Checks of the C++ view; returns the line of the first that fails. */
#include "ai_runtime.hpp"
#include "fake.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            return __LINE__;                                                                                           \
        }                                                                                                              \
    } while (false)

static int checks()
{
    static int8_t memory[16];
    float values[16] = {};
    float few[3] = {};
    ai::network first(ai_fake_network);

    CHECK(first);
    CHECK((first.inputs() == 1U) && (first.outputs() == 1U));
    {
        const ai::network second(ai_fake_network);
        CHECK(!second);
        CHECK(ai::network::create_error()[0] == 'T');
    }
    CHECK(first.input<int8_t>().size() == 16U);
    CHECK(first.input<float>().empty());
    CHECK(first.output<int8_t>(1).empty());
    CHECK(first.error()[0] == 'O');
    for (int8_t &element : first.input<int8_t>()) {
        element = 3;
    }
    CHECK(first.run());
    CHECK(first.output<int8_t>()[15] == 4);
    values[2] = 2.0F;
    CHECK(first.quantize(values));
    CHECK(first.input<int8_t>()[2] == 3);
    CHECK(!first.quantize(few));
    CHECK(first.place_output(ai::span<int8_t>(memory)));
    CHECK(!first.place_output(ai::span<float>(values)));
    CHECK(first.run());
    CHECK(memory[2] == 4);
    ai::network moved(static_cast<ai::network &&>(first));
    CHECK(!first);
    CHECK(moved);
    CHECK(moved.reset());
    moved = ai::network(ai_fake_network);
    CHECK(!moved);
    const ai::network again(ai_fake_network);
    CHECK(again);
    return 0;
}

int main()
{
    return checks();
}
