// Sums of estimated calls, and the least time they take on a machine.
#include "pellucid/analyze.h"

namespace pellucid {

void CostSum::add(const EstimatedCall& c) { add(CostSum{1, c.flops, c.bytes}); }

void CostSum::add(const CostSum& other) {
  calls += other.calls;
  flops.contraction += other.flops.contraction;
  flops.other += other.flops.other;
  flops.total += other.flops.total;
  bytes += other.bytes;
}

void LeastTime::add(const EstimatedCall& c, const MachineRates& machine) {
  const LeastSeconds least = machine.least(c.flops.total, c.bytes);
  seconds += least.least();
  (least.memory_bound() ? memory_seconds : compute_seconds) += least.least();
}

void LeastTime::add(const LeastTime& other) {
  seconds += other.seconds;
  compute_seconds += other.compute_seconds;
  memory_seconds += other.memory_seconds;
}

CostSum sum_costs(std::span<const EstimatedCall> calls) {
  CostSum out;
  for (const EstimatedCall& c : calls) out.add(c);
  return out;
}

LeastTime least_time(std::span<const EstimatedCall> calls, const MachineRates& machine) {
  PELLUCID_CHECK(machine.known(), ValueError,
                 "least_time: a machine's rates must be positive, found {} FLOP/s and {} B/s.",
                 machine.flops_per_second, machine.bytes_per_second);
  LeastTime out;
  for (const EstimatedCall& c : calls) out.add(c, machine);
  return out;
}

MachineRates this_machine() { return rates_of(machine_ceilings()); }

}  // namespace pellucid
