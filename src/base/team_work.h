// What threads work on, for the sampler: a thread of the pool has no scopes of its own, so what it
// does belongs to the call that opened the team's region. Numbers are the recorder's; 0 is nothing.
// Read in a signal handler: plain memory and nothing else.
#pragma once

#include <atomic>
#include <cstdint>

namespace pellucid::detail {

/// The innermost call of this thread.
extern constinit thread_local uint32_t t_work;
/// Whether this thread is one of the pool's, and not one that calls ops.
extern constinit thread_local bool t_pool_thread;
/// The call whose region holds the process's one team; 0 while none does.
extern constinit std::atomic<uint32_t> g_team_work;

}  // namespace pellucid::detail
