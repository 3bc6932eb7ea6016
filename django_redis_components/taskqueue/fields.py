"""Legend of the queue's data in Redis: fields of records, keys, states and lifetimes.

Stored names are short where every task pays for them; this module gives each its full name and meaning. Python
imports the classes. The script loader replaces ``F.lease``, ``O.failed``, ``P.ready`` and ``T.wakeup_ms`` in Lua
by the same values before it computes the SHA (`core.scripts`); an unknown name fails there.

Keys: ``<base>:<key>``, ``<base>:<key>:<name>`` and, of a queue, ``<base>:q:<queue>:<part>``.
"""

from __future__ import annotations

from django_redis_components.core.names import dotted_path
from django_redis_components.taskqueue.exceptions import ParentFailed
from django_redis_components.taskqueue.states import Outcome, OutcomeCounter, State


class Field:
    """Fields of a task's record, a hash at ``<base>:t:<id>``. Values are text unless the comment says int.

    The record has no TTL until the task has finished. Then it gets the task's ``result_ttl`` or ``failed_ttl``, or the
    ``ttl_ms`` of `expiry` or `cancel_request`; tasks of a flow get the flow's. The poller deletes a flow whose sending
    was interrupted, `Ttl.partial_flow_ms` after its first part.
    """

    #: Name of the queue.
    queue = "q"
    #: Registered name of the task.
    task_name = "n"
    #: JSON: arguments, and the options that travel with them. Opaque to Lua.
    body = "b"
    #: int: when the task was accepted, in microseconds since the epoch.
    enqueued_at_us = "e"
    #: See `states.State`; absent while the task is ready, or scheduled since it was enqueued.
    state = "s"
    #: int: when the task is due, in milliseconds since the epoch.
    due_at_ms = "d"
    #: int: when the task was put into a list again. Tells whether a purge before or after that moment took it.
    placed_at_us = "t"
    #: int: -100 to 100.
    priority = "p"
    #: Manner and digest of the unique key: "f…" until finished, "s…" until started, "t…" for a time.
    unique_claim = "u"
    #: "at_ms ttl_ms": the moment after which the task does not start, and how long its record is kept then.
    expiry = "X"
    #: "limit/key": how many tasks with this key run at once.
    concurrency = "C"
    #: "interval_us/tolerance_us/key": how often tasks with this key start.
    rate = "R"
    #: "weight/group": whose turn the task waits for (`fair_share`).
    fair_share = "G"
    #: "size/wait_ms" of a call of a task with the option `batch`.
    batch = "B"
    #: int: with how many calls, itself among them, its latest run has started. Absent if it was leased alone after its
    #: worker had died.
    batch_calls = "N"
    #: int: deliveries that may be lost with a worker before the task fails.
    max_deliveries = "D"
    #: "kind name" of what enqueued the task, and a tab and the request's user (`taskqueue.origin`).
    origin = "O"
    #: JSON: what the task saved about itself.
    metadata = "m"
    #: JSON: where the task continues, see `iteration.Cursor`.
    cursor = "I"
    #: "flow/number" of a task in a flow.
    flow_ref = "c"
    #: "continue" or "ignore" of a task in a flow that may fail: its followers run all the same.
    on_failure = "y"
    #: "1" of a task in a chain whose failure is ignored: it stops what comes after it in the chain, and does not count
    #: as a failure of the flow.
    failure_uncounted = "Y"
    #: Token of the latest lease: "worker/thread/request".
    lease = "L"
    #: int: when the latest lease began.
    leased_at_us = "l"
    #: int: when the first lease began.
    first_leased_at_us = "f"
    #: int: when the task finished.
    finished_at_us = "F"
    #: int: runs that raised an exception: what `max_attempts` limits. A retry by an operator resets it.
    attempts = "a"
    #: int: runs that have ended but for a successful one, whatever their outcome.
    runs = "k"
    #: int: workers that died with the task so far.
    deliveries = "x"
    #: Ids of the workers that ran the task, separated by commas.
    worker_ids = "w"
    #: Runs that did not succeed, one a line: "outcome leased_at_us duration_us worker".
    history = "h"
    #: JSON: the return value.
    return_value = "r"
    #: int: clients that wait for the result.
    waiters = "W"
    #: Random text of the call that enqueued the task under a chosen id. It differs for each call.
    nonce = "i"
    #: "force_at_ms ttl_ms": when a cancelled run is ended by force, and how long its record is kept then.
    cancel_request = "o"
    #: Fingerprint of the last error (`stats.fingerprint`).
    fingerprint = "g"
    #: "target op part score" of a task that is being moved to another shard: its name, the operation that has taken the
    #: task, and where it was. Also in what stays of the record meanwhile, without a queue (lua/admin/export_tasks.lua).
    moving = "M"


class Part:
    """Parts of a queue: keys ``<base>:q:<queue>:<part>``. The scores of zsets are milliseconds since the epoch."""

    #: List: tasks due at once, without priority.
    ready = "ready"
    #: List: tasks that were leased before, or have waited for a limit; served first.
    requeued = "requeued"
    #: Zset by -priority * 1e13 + sequence number.
    priority = "priority"
    #: Zset by due time.
    scheduled = "scheduled"
    #: Zset by due time: those of the scheduled tasks that have failed and wait for their next attempt. Ones whose time
    #: has passed do not count; the next retry, or the poller, removes them.
    retrying = "retrying"
    #: Zset by limit: groups whose tasks wait for it, by the number of their next turn (lua/shared/limit_turns.lua).
    limit_turns = "limit_turns"
    #: Zset by limit: entries of tasks to which a free place was offered, by the number of the turn that they have used.
    offered = "offered"
    #: Zset, all scores 0: "group\tpriority\tenqueued_at_us\tid" of ready tasks of groups.
    grouped = "grouped"
    #: Zset of groups with ready tasks by the number of their next turn; a fraction counts the starts in the turn.
    #: Batches that are not full by `Turn.filling` and the time in milliseconds at which they start.
    turns = "turns"
    #: Hash group -> "since_ms|JSON" of paused groups.
    paused_groups = "paused_groups"
    #: Zset, all scores 0: "limit\tpriority\tenqueued_at_us\tid" of tasks that wait for a limit; with a group
    #: "limit\t\tgroup\tpriority\tenqueued_at_us\tid".
    limited = "limited"
    #: Zset by end of the lease; 0 if the worker process has exited: the poller recovers the task at once.
    running = "running"
    #: Zset by time of failure.
    failed = "failed"
    #: Zset by time of the fetch: tasks whose name the fetching worker did not know.
    unregistered = "unregistered"
    #: Lists: rows of the newest tasks that finished in this state, the newest last (lua/shared/finished_list.lua).
    successful = "successful"
    cancelled = "cancelled"
    expired = "expired"
    #: Zset by time of acceptance: tasks that wait for other tasks of their flow.
    waiting = "waiting"
    #: Hash limit -> entry of the task for which the next start of a rate is reserved.
    reserved = "reserved"
    #: String, int: cancelled ids that are still in the lists `ready` and `requeued`.
    tombstones = "tombstones"
    #: String, int: microseconds since the epoch of the latest purge.
    purged_at_us = "purged_at"
    #: Zset of the ids of workers that serve the queue by their latest heartbeat.
    workers = "workers"
    #: Zset fingerprint by time of the latest failure.
    errors = "errors"
    #: Hash ``error:<fingerprint>``: times, final, first, last, about, ids, minutes (lua/shared/error_stats.lua).
    error = "error"
    #: String ``minute:<n>``: 32-bit counters of one minute.
    minute = "minute"
    #: String ``hour:<n>``: 32-bit counters of one hour.
    hour = "hour"
    #: String: 32-bit counters of the minutes that were added to the hours. A full counter starts again at 0.
    total = "total"
    #: Hash ``task_names:<hour>``: task name -> number of its counters.
    task_names = "task_names"


class Key:
    """Kinds of keys of a tag: ``<base>:<key>``, or ``<base>:<key>:<name>`` where the comment gives a name."""

    #: Hash by id: the record of a task. ``<id>:errors`` list: JSON of its last failures. ``<id>:done`` list: wakeups.
    task = "t"
    #: By queue and part, see `Part`.
    queue = "q"
    #: Zset of queue names by when the queue was first used.
    queues = "queues"
    #: Zset of queue names by when the poller first found them empty.
    idle_queues = "idle_queues"
    #: Hash queue -> "until_ms|since_ms|JSON" of paused queues.
    paused = "paused"
    #: String, int: the sequence of tasks with a priority, and of turns of groups.
    sequence = "sequence"
    #: Zset by name ("q:<queue>", "s:<supervisor>", "poller"): a marker for one BZPOPMIN.
    wakeup = "wakeup"
    #: String by digest: id of the task that holds a unique key.
    unique = "u"
    #: Hash by id: a flow, see lua/shared/flow.lua.
    flow = "flow"
    #: Zset of the ids of flows that have not finished, by when they were accepted.
    unfinished_flows = "unfinished_flows"
    #: Zset of the ids of flows of which only some parts were sent, by the time of the first one, in milliseconds.
    partial_flows = "partial_flows"
    #: Zset of the ids of flows that have work left, by the time of the last step: see lua/shared/flow_work.lua.
    flow_work = "flow_work"
    #: List by flow: what is left to do for followers of its tasks, of which there are very many, in steps: see
    #: lua/shared/flow_pending.lua.
    flow_steps = "flow_steps"
    #: Zset of tokens of rows of the outbox by when their tasks were accepted, in microseconds. The relay removes them
    #: some minutes after it has deleted the rows.
    outbox = "outbox"
    #: String, "1": the mark that replicas acknowledge, for at most a second.
    ack = "ack"
    #: String by limit: its numbers, as the newest task states them.
    limit = "limit"
    #: String by limit, int: when the next task may start by a rate, plus the tolerance, in microseconds.
    rate = "rate"
    #: Zset by limit: ids of the running tasks that hold the concurrency limit, by when they started.
    holders = "holders"
    #: Zset by limit: names of queues in which tasks wait for concurrency.
    concurrency_waiters = "concurrency_waiters"
    #: String by worker and thread: "request id id …", the tasks that the latest request leased.
    last_fetch = "last_fetch"
    #: String by worker: id of the crash suspect that it runs alone.
    quarantine = "quarantine"
    #: Zset of worker ids by their latest heartbeat.
    workers = "workers"
    #: String by worker: JSON about it.
    worker = "worker"
    #: List by supervisor: "until_ms at_ms op verb target author" of each command that it has not executed.
    commands = "commands"
    #: Hash by host, command line and name of the value: "at_ms value author" of each changed value of a pool that
    #: processes take at their start.
    kept_pools = "kept_pools"
    #: Zset of versions of the site's code by when a worker first reported them.
    deploys = "deploys"
    #: Zset of supervisors by that time of their version.
    versions = "versions"
    #: String by operation: the stack of a task that an operator has asked for.
    stack = "stack"
    #: String: id of the active poller.
    poller = "poller"
    #: String: JSON about the poller whose rounds fail by an error of code (store/poller_failure.py).
    poller_failure = "poller_failure"
    #: Hash: when the server was last reached, and until when nothing is recovered (lua/shared/contact.lua).
    contact = "contact"
    #: String: the latest minute that was added to the hours. Of further chunks of queues by number.
    rollup = "rollup"
    #: String ``<minutes>:<n>``: 32-bit counters of all queues together, of the nth bucket of 1, 10, 60 or 1440 minutes.
    history = "history"
    #: Hash ``<n>``, the nth ten minutes: "queue:minute" -> the first 104 counters of a queue in one of its minutes
    #: (stats/packed_minutes.py).
    packed_minutes = "packed_minutes"
    #: Hash by number of a chunk of queues: "first last" of the minutes in these hashes, without a gap.
    packed = "packed"
    #: String: the latest hour that was added to the hours of task names. Of further chunks of queues by number.
    class_rollup = "class_rollup"
    #: Set by hour: the queues that were added to the hours of task names.
    class_queues = "class_queues"
    #: String ``<hour>:<name>``: 32-bit counters of a task name of all queues together.
    class_hours = "class_hours"
    #: String by operation: the reply to a call that may be sent again; by task: the id of another that a call with this
    #: id has changed, instead of enqueueing one.
    reply = "reply"
    #: Zset "queue/trash" by time of the purge or deletion.
    trash_index = "trash_index"
    #: By trash id and part: what a purge or a deletion has removed.
    trash = "trash"
    #: Zset of the ids of tasks that are being moved to another shard, by when they were taken, in microseconds.
    moving = "moving"
    #: Hash by id: the record of such a task. ``<id>:errors`` list: see `task`.
    moving_task = "moving_task"
    #: Zset "op/id" of tasks that came from another shard, by until when a repetition of the move is recognized by it.
    arrived = "arrived"
    #: Zset of schedule names by when a poller last registered them.
    schedules = "schedules"
    #: Hash by name: last, next, times, enabled, info, fired, id.
    schedule = "schedule"
    #: Hash by schedule: "since_ms author" of each that is paused.
    paused_schedules = "paused_schedules"
    #: Hash by schedule: JSON, the definition of each that was added at run time.
    added_schedules = "added_schedules"
    #: Hash by schedule, int: the tasks that each with a limit has sent.
    schedule_counts = "schedule_counts"
    #: String, int: how often these two were changed.
    schedules_version = "schedules_version"


class FlowField:
    """Fields of a flow, a hash. Field ``<number>``: "id followers" of a task, the followers' numbers with commas."""

    #: int: when all parts were accepted, in microseconds since the epoch.
    enqueued_at_us = "e"
    #: int: tasks of the flow, without the callbacks. Their numbers come behind those of the tasks: on_error,
    #: on_complete, on_success, whether the flow has them or not.
    tasks = "tasks"
    #: int: tasks that running members have added. Their numbers come behind those of the callbacks.
    added = "added"
    #: With the id of such a task behind it, int: its number. With its number behind it: id of the task behind whose
    #: result its own is appended, and, if it is not its own alone, a space and a JSON list of ids; empty: nothing is.
    number = "number:"
    added_by = "a"
    #: int: tasks that have not finished.
    unfinished = "unfinished"
    #: int: how long the flow is kept when all tasks have succeeded, and otherwise.
    ttl_ms = "ttl"
    failed_ttl_ms = "failed_ttl"
    #: 1 when a task cannot succeed any more.
    has_failed = "has_failed"
    #: int: tasks that have not succeeded and cannot without a retry, but for those whose failure is ignored.
    failed = "failed"
    #: int: how many these were when all tasks had finished.
    failed_at_end = "failed_at_end"
    #: Number of a callback while it waits.
    on_error = "on_error"
    on_complete = "on_complete"
    on_success = "on_success"
    #: "id name reason" of the first failure, for the on_error task.
    first_error = "first_error"
    #: JSON: numbers of the tasks whose results are the flow's.
    result_of = "result_of"
    #: JSON: the steps of a flow with chains or groups among them: flows/tree.py.
    tree = "tree"
    #: JSON: what the first tasks of a flow get that is a callback; the id of the flow whose callback it is. In the hash
    #: of that flow, with the id of the callback's flow behind it, int: when that was accepted, in microseconds.
    given = "given"
    callback_of = "callback_of"
    started = "started:"
    #: int: number of the first task that was not started, or listed as waiting, when the flow was accepted.
    starting = "starting"
    #: "number ttl_ms", "number none" or "number delete": the next task whose result gets a TTL or loses it, or that is
    #: deleted.
    sweep = "sweep"
    #: "number sum revision" or "number excess fail": the state of a search for lost tasks: lua/shared/lost_flows.lua.
    search = "search"
    #: int: how often tasks became unfinished: a retry, an added task, a callback that was started.
    revision = "revision"
    #: With a task's id behind it: "on_failure name reason" of one that failed and may, so that its followers run.
    failure = "failure:"
    #: With "number:chunk" behind it: numbers of some followers of a task that has very many, with commas. Its node has
    #: a single comma in place of followers.
    followers = "followers:"
    #: With the number of a task behind it that a running member has added: number of the one with whose chunks of
    #: followers its own are stored. With that number behind it, int: these tasks that have not succeeded, its own
    #: included. The followers wait for all of them as for one; 0: not any more.
    same_followers = "same:"
    open_members = "open:"
    #: int: number of the first added task that was not started, or listed as waiting.
    starting_added = "starting_added"
    #: With a task's number behind it, int: how many entries `Key.flow_steps` has for it.
    steps = "steps:"
    #: With a task's number behind it, int: parents that have not succeeded; parents that cannot succeed any more.
    open_parents = "o"
    failed_parents = "f"
    #: With a task's number behind it: when it is due, and when it expires, as enqueue.lua takes them.
    due = "d"
    expires = "x"


class Turn:
    """Numbers in `Part.turns`."""

    #: The place of a batch that is not full: this number and the time in milliseconds at which it starts all the same.
    #: It is above the numbers of all turns, and the sum is exact. A worker of a version without batches serves it last.
    filling = 2**52


class Ttl:
    """Lifetimes of keys, in milliseconds."""

    #: A wakeup without a waiter. Its worker fetches before it first waits.
    wakeup_ms = 60_000
    #: The reply to an operation: longer than any client repeats a call.
    reply_ms = 60_000
    #: What is stored of a limit without tasks: 30 days.
    limit_ms = 2_592_000_000
    #: That a task came from another shard: a week, in which an interrupted move can be repeated; and after the move was
    #: finished: longer than another process may have a copy of the task (lua/admin/import_tasks.lua).
    arrived_ms = 604_800_000
    settled_ms = 120_000
    #: A flow of which only some parts were sent: then it is deleted.
    partial_flow_ms = 3_600_000
    #: The moment of a purge: a week, longer than what it removed is kept.
    purged_ms = 604_800_000
    #: A crash suspect's quarantine: longer than any sensible run.
    quarantine_ms = 86_400_000
    #: A queue without any task: then it leaves the index.
    idle_queue_ms = 86_400_000
    #: A restored task whose unique key another task has.
    cancelled_ms = 600_000
    #: Counters of a minute: three hours and a minute.
    minute_ms = 10_860_000
    #: Counters of an hour: 14 days and an hour.
    hour_ms = 1_213_200_000
    #: Task names of an hour: longer than its minutes.
    task_names_ms = 14_460_000
    #: Counters of a task name by hour: as long as a page shows them, and two hours more.
    class_hours_ms = 612_000_000
    #: The latest minute that was added to the hours: longer than any minute, so that a poller that returns omits none.
    rollup_ms = 1_213_200_000
    #: Buckets of the history, by their length in minutes: as long as a range shows them, and two buckets more.
    history_1_ms = 3_720_000
    #: Minutes of many queues by ten minutes: as long as a page shows them, and ten minutes more.
    packed_minutes_ms = 4_320_000
    history_10_ms = 87_600_000
    history_60_ms = 612_000_000
    history_1440_ms = 7_948_800_000
    #: A worker without a heartbeat in the index of workers.
    worker_ms = 600_000
    #: A command to a supervisor that has not executed it: longer than its heartbeats are apart.
    command_ms = 60_000
    #: The versions of the site's code, from the latest start of a supervisor: a year.
    deploys_ms = 31_536_000_000
    #: What refuses the due times of a removed schedule: longer than a poller takes to read that it was removed.
    removed_schedule_ms = 60_000


class ErrorPath:
    """Paths of the exceptions that scripts store as errors of tasks."""

    #: The task depends on one that cannot succeed any more.
    parent_failed = dotted_path(ParentFailed)


#: The names by which Lua reads the classes.
LEGEND: dict[str, type] = {
    "F": Field, "S": State, "O": Outcome, "C": OutcomeCounter, "P": Part, "K": Key, "T": Ttl, "E": ErrorPath,
    "FLOW": FlowField, "TURN": Turn,
}  # fmt: skip
