//! The table of rules for captures.

use unspool_model::rule::rules;

rules! {
FrameReservedId "capture-frame-reserved-id" Error "frames"
    "A frame has no reserved trace id.";
FrameCutShort "capture-frame-cut-short" Error "frames"
    "No full synchronization is inside a frame.";
FrameUnsynchronized "capture-frame-unsynchronized" Error "frames"
    "A buffer with full synchronizations starts with one.";
FrameShifted "capture-frame-shifted" Error "frames"
    "Frames follow each other without a byte missing or too many.";
FrameTruncated "capture-frame-truncated" Error "frames"
    "A buffer ends at the end of a frame.";
ReservedHeader "capture-reserved-header" Error "packets"
    "A packet starts with a header that the architecture defines.";
ReservedExtension "capture-reserved-extension" Error "packets"
    "An extension packet is one that the architecture defines.";
ReservedException "capture-reserved-exception" Error "packets"
    "The information byte of an exception is one that the architecture defines.";
PacketConfiguration "capture-packet-configuration" Error "packets"
    "The trace unit, as its registers describe it, can send the packet.";
BrokenSynchronization "capture-broken-synchronization" Error "packets"
    "Zeros are the start of a complete alignment synchronization.";
MalformedPacket "capture-malformed-packet" Error "packets"
    "The fields of a packet end within their maximum length.";
PacketTruncated "capture-packet-truncated" Error "packets"
    "The stream of a source ends at the end of a packet.";
PacketCut "capture-packet-cut" Error "packets"
    "No synchronization starts inside a packet.";
VersionMissing "capture-version-missing" Error "packets"
    "The version of the protocol follows a synchronization, and is one that exists (STM).";
ReservedBits "capture-reserved-bits" Warning "packets"
    "The reserved bits of a packet are zero; the packet is read without them.";
PresumedStart "capture-presumed-start" Warning "packets"
    "A synchronization is near the start of the bytes; without one, the first byte is taken for a packet (ITM).";
Unsynchronized "capture-unsynchronized" Warning "packets"
    "The bytes of a source start with an alignment synchronization; without one they are skipped up to the next.";
NeverSynchronized "capture-never-synchronized" Error "packets"
    "The bytes of a source contain an alignment synchronization.";
TraceInfoMissing "capture-trace-info-missing" Error "elements"
    "A trace info precedes the packets that depend on it.";
ExceptionAddress "capture-exception-address" Error "elements"
    "An exception packet is followed by its address.";
CommitExcess "capture-commit-excess" Error "elements"
    "A commit has no more P0 elements than were traced.";
CancelExcess "capture-cancel-excess" Error "elements"
    "A cancel has no more P0 elements than are speculative.";
EndlessTransaction "capture-endless-transaction" Error "elements"
    "A transaction ends before its elements exceed the limit.";
EndlessSpeculation "capture-endless-speculation" Error "elements"
    "Speculation is resolved before its elements exceed the limit.";
UnresolvedSpeculation "capture-unresolved-speculation" Warning "elements"
    "All P0 elements are committed or canceled at the end of the trace.";
Overflow "capture-overflow" Warning "elements"
    "The trace unit must not overflow: an overflow loses trace.";
DataLost "capture-data-lost" Warning "elements"
    "Masters lose no data: an error packet reports a loss (STM).";
BranchNotTaken "capture-branch-not-taken" Error "flow"
    "A branch that the code makes unconditional is taken.";
UnreachableAddress "capture-unreachable-address" Error "flow"
    "An address in the trace is where the code leads.";
Runaway "capture-runaway" Error "flow"
    "The code has a branch before the limit of instructions.";
ReturnAddress "capture-return-address" Error "flow"
    "The return address of an exception follows from the position of execution.";
SourceAddress "capture-source-address" Error "flow"
    "A source address is that of a branch which the code leads to.";
TargetAddress "capture-target-address" Error "flow"
    "The target of an indirect branch is in the trace, unless the return stack predicts it.";
Mispredict "capture-mispredict" Error "flow"
    "A mispredict follows a branch.";
DroppedAfterMismatch "capture-dropped-after-mismatch" Warning "flow"
    "Every P0 element is followed; those after a contradiction are dropped up to the next address.";
NoAddress "capture-no-address" Warning "flow"
    "An address and its context precede the P0 elements that depend on them; without them, elements are dropped.";
MissingCode "capture-missing-code" Warning "code"
    "The code of every executed address is in an image.";
AmbiguousImage "capture-ambiguous-image" Error "code"
    "Where processes have different code at an address, the trace or the event log shows which one executes.";
}
