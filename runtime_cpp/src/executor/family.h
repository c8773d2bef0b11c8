// The answers of a request that asks for several: how they end together.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

namespace slipstream::executor {

class RequestState;

/// A request moves from one list to another without an allocation, so it is never lost.
using Requests = std::list<std::unique_ptr<RequestState>>;

/// What the answers of one request know of each other. Belongs to the loop's thread once queued.
struct Family {
  int32_t unfinished = 0;  ///< Answers that have not ended.
  int32_t wanted = 0;      ///< Answers that are told.
  /// Told when all have ended, best first: the order is not known before.
  bool ranked = false;
  Requests ended;  ///< Of a ranked family, until the last one ends.
};

/// Ends the answers that wait for the prompt of `leader`, which has ended, for its reason, and
/// gives them to the end of `to`.
void EndSiblings(RequestState* leader, Requests* to) noexcept;

/// Takes an answer that has ended out of `from`: to the end of `told`, or, if it is of a ranked
/// family, the wanted ones go there once all have ended, and the others to `dropped`. True when its
/// request is over.
bool Settle(Requests* from, Requests::iterator answer, Requests* told, Requests* dropped) noexcept;

}  // namespace slipstream::executor
