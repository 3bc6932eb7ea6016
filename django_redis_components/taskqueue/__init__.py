"""Run tasks outside the request: at once, after a delay, or again after a failure.

Guarantees, with crashes and concurrent calls:

* An accepted task is run. A killed worker, poller or web process loses none. A task runs twice only if its
  worker died, or lost its lease, while the task ran or before its outcome was sent. Outcomes of lost leases
  are discarded.
* A delayed task starts within milliseconds of its due time if a thread is free, regardless of which pollers and
  workers are alive.
* Queues are served in strict order. Order within a queue: recovered tasks, due tasks, priority, arrival.
* One unique task per key exists at a time. A task that has expired is not started.
* Each time of a schedule (`@every`, `@cron`) enqueues one task, even if pollers die or replies are lost.
* Limits of a task (`Concurrency`, `Rate`) apply over all workers, to active leases and to starts. Blocked tasks
  keep their position, and nothing is polled.
* The client repeats `enqueue` after a lost reply: the id of the task makes the call idempotent.

Modules; this package re-exports what a site uses:

==========================  ============================================================================
decorator, task, options    `@task`; `Task`; the options and their validation
option_names                names of options in other task queues
defaults                    options from the settings: `DEFAULTS` and `ROUTES`
retry, limits, unique       the options `backoff`; `concurrency` and `rate`; `unique`
fair_share                  the option `fair`
batches, batch_task         the option `batch`; the task whose function gets several calls
registry                    tasks by name and alias; a name from Redis is looked up here, never imported
call_signature, json_codec  arguments: checked at the call; JSON encoding of further types
sealing                     arguments that are encrypted before they leave the process
enqueue, on_commit          a call becomes a message, which is sent at once or on commit; whose commit that is
sending                     one task or many at once, and their state when Redis fails
placement, routing          the key by which tasks of a spread queue are placed; shards of which any may have a task
replication                 the option `min_replicas`: waiting until replicas have what was sent
outbox                      rows of `contrib.outbox`: what a database keeps until it is sent
origin, request_middleware  who enqueued a task; the middleware by which requests are known
result, record, failure     `TaskResult`; the record it was read from; stored exceptions
task_update                 what a change of a pending task writes
context, iteration          what a task knows and reports while it runs; loops that continue at a cursor
run_start                   the result and the context of a task that is about to run
queue                       `Queue`: depths, metrics, and operations on all tasks of a queue
fields                      the legend of stored data, for Python and Lua: fields, keys, states
states                      states of tasks and outcomes of runs, one word for each
shards, shard_clients       where data of the queue lives: a connection and a hash tag; flows over several of them
store/                      the scripts, and the flows that call them: messages, records, queues
flows/, start_flow          chains and groups; the task that starts a callback which is one
schedules/                  periodic tasks: decorators, due times, the scheduler of the poller
pool                        threads, coroutines and queues of a process, and their changes
stats/                      what the dashboard reads: counters, histograms, errors, workers
worker/                     a worker process: fetcher, threads, event loop, runs, time limits
supervisor/                 the process that forks workers, renews their leases, kills and replaces them
poller                      recovers leases, wakes workers for due tasks, sends periodic tasks, prunes
startup                     starts a worker or a poller, for the commands
middleware/, signals        what surrounds tasks: the contract for sites, Django's signals
logs, log_handler           the current task in log records; the handler of `runworker`
guarded_logger, forks       no error of the site's logging, and no fork of a task, acts on a worker
outage_log                  log messages about an outage
failpoints                  named points at which crash tests end the process
checks, exceptions          system checks; errors
lua/                        one script for each operation, shared parts in lua/shared
==========================  ============================================================================

Keys, all in one hash tag, below ``<prefix>:taskqueue:{default}``:

============================  ======  =======================================================  =====================
key                           type    content                                                  TTL or owner
============================  ======  =======================================================  =====================
t:<id>                        hash    body (opaque JSON), state, lease, metadata, cursor       result_ttl when done
t:<id>:errors                 list    failures as JSON, the last 50                            failed_ttl
t:<id>:done                   list    wakeup key of callers that wait for the result           60 s
q:<queue>:requeued            list    requeued ids: recovered, or returned by a worker         the queue
q:<queue>:ready               list    ids, first in, first out                                 the queue
q:<queue>:priority            zset    ids with a priority                                      the queue
q:<queue>:scheduled           zset    ids by due time in ms, then arrival; fetched from here   the queue
q:<queue>:retrying            zset    ids of the scheduled tasks that failed, by due time      the poller
q:<queue>:running             zset    ids by lease expiry in ms                                the poller
q:<queue>:failed              zset    ids by time of failure in ms                             failed_ttl, poller
q:<queue>:unregistered        zset    ids of unregistered names, by time in ms                 the operator
q:<queue>:successful          list    rows of the newest finished tasks, `KEEP_FINISHED`       FINISHED_TTL, poller
q:<queue>:cancelled           list    the same of cancelled tasks                              FINISHED_TTL, poller
q:<queue>:expired             list    the same of tasks that expired before they started       FINISHED_TTL, poller
wakeup:q:<queue>, :poller     zset    wakeup keys; they carry no task                          60 s
wakeup:s:<supervisor>         zset    wakeup key: a task was cancelled, or a command waits     60 s
commands:<supervisor>         list    commands to its processes that it has not executed       60 s
kept_pools                    hash    changed pools that processes take at their start         resetting
stack:<op>                    string  stack of a running task, which an operator asked for     60 s
queues, workers, idle_queues  zset    names by first use; ids by heartbeat; unused queues      the poller
worker:<id>                   string  state that a worker reports, JSON                        40 leases
deploys, versions             zset    versions of the code, supervisors; by the first report   a year
last_fetch:<worker>:<thread>  string  the last batch, for a repeated request                   one lease
poller                        string  id of the active poller                                  6 s
poller_failure                string  JSON about a poller whose rounds fail                    60 s
contact                       hash    when supervisors and pollers last reached the server     the poller
paused                        hash    queue to its pause                                       resuming
q:<queue>:tombstones          string  tombstones: cancelled ids that are still in a list       the queue
q:<queue>:minute:<minute>     string  counters and histograms, of all tasks and by name        3 h
q:<queue>:hour:<hour>         string  the same for all tasks, aggregated by the poller         14 days
q:<queue>:total               string  the sum of the hours, for monitoring                     14 days
class_hours:<hour>:<name>     string  counters of a task name of all queues, by the poller     7 days
class_rollup                  string  the last hour that was added to these                    7 days
class_queues:<hour>           set     queues that were added to these                          4 h
q:<queue>:task_names:<hour>   hash    task names with separate counters, to their index        4 h
q:<queue>:errors              zset    fingerprints of errors by last occurrence in ms, 100     failed_ttl, poller
q:<queue>:error:<print>       hash    an error group: count, times, tasks, failures by minute  failed_ttl
rollup                        string  the last aggregated minute                               14 days
packed_minutes:<number>       hash    queue and minute to its counters, of ten minutes of all    72 min
packed                        hash    the minutes in these, by chunk of 500 queues             14 days
history:<minutes>:<number>    string  counters of all queues together, aggregated by a poller  1 h to 92 days
q:<queue>:purged_at           string  time of the last purge, in microseconds                  a week
u:<digest>                    string  id of the task that holds a unique key                   the task, its time
quarantine:<worker>           string  id of a task close to max_deliveries; one at a time      a day
trash_index                   zset    purges, by their time in ms                              a day, the poller
trash:<purge>:<part>          mixed   purged tasks                                             a day, the poller
schedules                     zset    names of schedules by their last registration            the poller
schedule:<name>               hash    last processed time, next time, last task, description   the poller
paused_schedules              hash    schedules that are paused: since when, by whom           none
added_schedules               hash    schedules that were added at run time, as JSON           finished, removal
schedule_counts               hash    tasks that each schedule with a limit has sent           the schedule
schedules_version             string  how often these two were changed                         none
reply:<op>, reply:<id>        string  reply to an operation; the task that a call has changed  60 s
unfinished_flows              zset    ids of flows that have not finished                      the poller
partial_flows                 zset    ids of flows of which some parts were sent, by time      the poller, an hour
flow_work                     zset    ids of large flows that start, or get their TTL          the poller
outbox                        zset    tokens of sent rows of `contrib.outbox`, by time         its relay
flow:<flow>                   hash    ids, followers, open parents and failures of its tasks   the flow, its results
flow_steps:<flow>             list    what one of its tasks still has to start or to fail      the poller
q:<queue>:waiting             zset    tasks that wait for others of their flows                the queue
q:<queue>:limited             zset    tasks blocked by a limit, grouped by limit               the queue
q:<queue>:reserved            hash    rate to the task that it allows to start next            the queue
q:<queue>:grouped             zset    ready tasks of groups, group by group                    the queue
q:<queue>:turns               zset    groups with ready tasks by their next turn               the queue
q:<queue>:paused_groups       hash    paused groups: since when, by whom                       resuming
holders:c:<key>               zset    ids that hold a concurrency limit                        settling, poller
concurrency_waiters:c:<key>   zset    queues with tasks that wait for concurrency              30 days
rate:r:<key>                  string  earliest time of the next start, in microseconds         that moment
limit:<limit>                 string  the value of a limit, from the newest task               30 days
sequence                      string  counter that orders equal priorities                     the tag
============================  ======  =======================================================  =====================

``ack`` is the mark that replicas acknowledge for `min_replicas`: a string that lives for a second at most.

Example:

    >>> from django_redis_components.taskqueue import get_queue
    >>> get_queue("default").info().ready
    0

See also: `signals`, `logs`, and `django_redis_components.locks` for ``@lock(…, on_conflict="delay")`` inside a task.
"""

from __future__ import annotations

from django_redis_components.taskqueue.batches import Batch, BatchCall
from django_redis_components.taskqueue.context import TaskContext
from django_redis_components.taskqueue.decorator import task
from django_redis_components.taskqueue.exceptions import (
    FlowDoesNotExist,
    GroupNotOpen,
    InvalidTask,
    LeaseLost,
    NotPending,
    NotScheduled,
    OutcomeRefused,
    ParentFailed,
    ParentsLost,
    PartiallyEnqueued,
    PartlyDone,
    ResultTooLarge,
    ScheduleDoesNotExist,
    SealedArguments,
    SoftTimeLimitExceeded,
    TaskCancelled,
    TaskFailed,
    TaskIdConflict,
    TaskInterrupted,
    TaskNotFinished,
    TaskQueueError,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TimeLimitExceeded,
    UniqueKeyConflict,
    UnknownQueue,
    WaitTimeout,
    WorkerLost,
)
from django_redis_components.taskqueue.failure import TaskError
from django_redis_components.taskqueue.fair_share import FairShare
from django_redis_components.taskqueue.flows.member_flow import MemberFlow
from django_redis_components.taskqueue.flows.parents import MemberFailure, ResultReference
from django_redis_components.taskqueue.flows.result import FlowResult, aget_flow, get_flow
from django_redis_components.taskqueue.flows.signature import Signature, chain, group
from django_redis_components.taskqueue.iteration import Cursor
from django_redis_components.taskqueue.limits import Concurrency, Rate
from django_redis_components.taskqueue.middleware import Middleware, NewTask, RunContext, RunOutcome, WorkerDescription
from django_redis_components.taskqueue.queue import Purge, Queue, get_queue
from django_redis_components.taskqueue.record import Progress, TaskOrigin, TaskResultStatus, TaskRun
from django_redis_components.taskqueue.request_middleware import TaskOriginMiddleware
from django_redis_components.taskqueue.result import TaskResult, aget_result, get_result
from django_redis_components.taskqueue.retry import exponential
from django_redis_components.taskqueue.schedules.changes import Schedules
from django_redis_components.taskqueue.schedules.schedule import cron, every
from django_redis_components.taskqueue.schedules.status import ScheduleInfo, aschedules, schedules
from django_redis_components.taskqueue.start_flow import StartFlowTask as _StartFlowTask  # noqa: F401 - it is registered
from django_redis_components.taskqueue.stats.errors import ErrorGroup, ErrorSample
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.metrics import Counts, Interval, Metrics, TaskMetrics
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, QueuePause
from django_redis_components.taskqueue.task import Task
from django_redis_components.taskqueue.unique import Unique

__all__ = [
    "Batch",
    "BatchCall",
    "Concurrency",
    "Counts",
    "Cursor",
    "ErrorGroup",
    "ErrorSample",
    "FairShare",
    "FlowDoesNotExist",
    "FlowResult",
    "GroupNotOpen",
    "Histogram",
    "Interval",
    "InvalidTask",
    "LeaseLost",
    "MemberFailure",
    "MemberFlow",
    "Metrics",
    "Middleware",
    "NewTask",
    "NotPending",
    "NotScheduled",
    "OutcomeRefused",
    "ParentFailed",
    "ParentsLost",
    "PartiallyEnqueued",
    "PartlyDone",
    "Progress",
    "Purge",
    "Queue",
    "QueueInfo",
    "QueuePause",
    "Rate",
    "ResultReference",
    "ResultTooLarge",
    "RunContext",
    "RunOutcome",
    "ScheduleDoesNotExist",
    "ScheduleInfo",
    "Schedules",
    "SealedArguments",
    "Signature",
    "SoftTimeLimitExceeded",
    "Task",
    "TaskCancelled",
    "TaskContext",
    "TaskError",
    "TaskFailed",
    "TaskIdConflict",
    "TaskInterrupted",
    "TaskMetrics",
    "TaskNotFinished",
    "TaskOrigin",
    "TaskOriginMiddleware",
    "TaskQueueError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "TaskRun",
    "TimeLimitExceeded",
    "Unique",
    "UniqueKeyConflict",
    "UnknownQueue",
    "WaitTimeout",
    "WorkerDescription",
    "WorkerLost",
    "aget_flow",
    "aget_result",
    "aschedules",
    "chain",
    "cron",
    "every",
    "exponential",
    "get_flow",
    "get_queue",
    "get_result",
    "group",
    "schedules",
    "task",
]
