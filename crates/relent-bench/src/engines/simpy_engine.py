"""The hold model and the herd on SimPy's own loop: `python3 simpy_engine.py hold PENDING STEPS | herd CLIENTS`.

Prints what the other engines print: events, seconds of the processor, seconds on the wall, MB, a checksum (none here).
The luck is Python's own generator's, which is faster in Python than a hash would be.
"""

import gc
import random
import resource
import sys
import time

import simpy


def hold(pending, steps):
    env = simpy.Environment()
    handled = 0

    def timer():
        nonlocal handled
        while True:
            yield env.timeout(random.random() * 0.1 * (1 << random.getrandbits(3)))
            handled += 1

    for _ in range(pending):
        env.process(timer())
    for _ in range(pending):
        env.step()  # the beginnings of the processes
    started = time.process_time(), time.perf_counter()
    for _ in range(steps):
        env.step()
    return steps, started


def herd(clients):
    started = time.process_time(), time.perf_counter()
    env = simpy.Environment()
    per_slot = clients // 50 // 1000
    slot, left, events = -1, 0, 0
    series = [0] * 10_000

    def client():
        nonlocal slot, left, events
        yield env.timeout(random.random() * 0.002)
        attempts = 0
        while True:
            now = env.now
            events += 1
            series[int(now * 10)] += 1
            if int(now * 1000) != slot:
                slot, left = int(now * 1000), per_slot
            if left > 0:
                left -= 1
                return
            ceiling = min(0.1 * (1 << min(attempts, 30)), 20)
            attempts += 1
            yield env.timeout(0.010 + random.random() * 0.002 + random.random() * ceiling)

    for _ in range(clients):
        env.process(client())
    env.run()
    return events, started


def main():
    random.seed(1)
    # A million generators are no garbage: looking for some among them would be most of the time.
    gc.disable()
    model, *numbers = sys.argv[1:]
    events, (cpu, wall) = {"hold": hold, "herd": herd}[model](*map(int, numbers))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(events, time.process_time() - cpu, time.perf_counter() - wall, peak, 0)


main()
