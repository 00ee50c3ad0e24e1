// The page that shows a snapshot: what stands before its JSON, and what after.
#pragma once

namespace facula::gpu {

extern const char* const kSnapshotPageHead;
extern const char* const kSnapshotPageTail;

}  // namespace facula::gpu
