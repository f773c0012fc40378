// Package pubsub delivers events as messages of a Google Cloud Pub/Sub topic.
//
// A message's data is the event's JSON object (exporter.Event.AppendJSON), its
// ordering key stands for the event's run, and its attributes are what
// subscribers filter and deduplicate by.
//
// What the package promises:
//
//   - Deliver returns nil only when the server has given every message an id.
//   - The messages of a run are published in seq order: the next request of a
//     run begins when the one before it is answered, and none begins after a
//     failed one. What follows a failure is pending; other runs go on.
//   - Nothing is published after Deliver's context has ended, and nothing goes
//     on behind its back: when it returns, every request has its answer or was
//     cancelled. Neither failures nor runs leave anything in memory.
//   - Requests fit the server's limits as encoded. An event that can never fit
//     is rejected before anything of the batch is sent.
//   - The number of requests under way and their bytes are bounded, and so is
//     the time of each. A request is made once: only the pipeline tries again.
//
// The requests are made with the client library's own connection and call, but
// not with its Publisher: that one publishes from a background queue, beyond
// the context of who asked, so a stale owner could go on for minutes; it pauses
// a key that failed until it is told otherwise; and it holds messages back to
// gather them, where here the whole batch is known.
//
// PUBSUB_EMULATOR_HOST is the library's own and replaces endpoint and
// credentials.
package pubsub
