"""Tasks that run outside the request: now, later, again after a failure.

Guarantees, under crash and under race:

* A task that was accepted is run. Killing any worker, poller or web process at any moment loses
  none. It runs twice only if its worker died, or lost its lease, while it ran or before its outcome
  was sent; the late finisher cannot overwrite the result.
* A delayed task starts within milliseconds of its time, whichever poller or worker is alive, as
  soon as a slot is free.
* Queues are served in strict order; within a queue: what came back from a dead worker, what has
  fallen due, what has priority, what came first.
* Of a unique task there is one at a time, whoever sends it. One that expires is not begun after its time.
* Each slot of a schedule (`@every`, `@cron`) sends one task, whatever becomes of pollers and replies.
* A limit of a task (`Concurrency`, `Rate`) holds over all workers: no more leases than it says are alive
  at once, no more begin than it says. Who must wait keeps its place, and nobody polls for it.
* `enqueue` may be repeated after a lost reply: the id makes it one task.

Keys, all in one hash tag, below ``<prefix>:taskqueue:{default}``:

=======================  ======  =====================================================  ==================
key                      type    what                                                   TTL or owner
=======================  ======  =====================================================  ==================
t:<id>                   hash    body (opaque JSON), state, lease, notes                 result_ttl when done
t:<id>:errors            list    failures as JSON, the last 50                          failed_ttl
t:<id>:done              list    bell for those who wait for the result                 60 s
q:<queue>:front          list    ids that came back: recovered, handed back             the queue
q:<queue>:ready          list    ids, first come first served                           the queue
q:<queue>:prio           zset    ids with a priority                                    the queue
q:<queue>:sched          zset    ids by due time in ms, then arrival; served from here  the queue
q:<queue>:running        zset    ids by the end of their lease in ms                    the poller
q:<queue>:failed         zset    ids by time of failure in ms                           failed_ttl, poller
q:<queue>:parked         zset    ids of unknown names, by time in ms                    the operator
bell:q:<queue>, :poller  zset    a bell carries no task                                 60 s
bell:s:<supervisor>      zset    rung when a task that runs is cancelled                60 s
queues, workers, idle    zset    names by first use; ids by heartbeat; unused queues    the poller
worker:<id>              string  what a worker says of itself, JSON                     40 leases
lane:<worker>:<lane>     string  the last batch, for a repeated request                 one lease
poller                   string  id of the active poller                                6 s
contact                  hash    when supervisors and pollers last reached the server   the poller
paused                   hash    queue to its pause                                     resuming
q:<queue>:ghosts         string  cancelled ids that still stand in a list               the queue
q:<queue>:min:<minute>   string  counters and histograms, of all tasks and by name      3 h
q:<queue>:hour:<hour>    string  the same of all tasks, rolled up by the poller         14 days
q:<queue>:names:<hour>   hash    task names whose counters stand apart, to their place  4 h
q:<queue>:errs           zset    fingerprints of errors by the last time in ms, 100     failed_ttl, poller
q:<queue>:err:<print>    hash    an error: how often, when, which tasks                 failed_ttl
rolled                   string  the last minute that was rolled up                     3 h
q:<queue>:purged         string  when the last purge was, in microseconds               a week
u:<digest>               string  id of the task that has a unique key                   the task, its time
trial:<worker>           string  id of a task close to max_deliveries; one at a time    a day
bins, bin:<bin>:<part>   mixed   what a purge took away                                 a day, the poller
schedules                zset    names of schedules by their last announcement           the poller
schedule:<name>          hash    last slot seen to, next slot, last task, description    the poller
op:<op>                  string  answer to an operation, in case its reply is lost      60 s
flow:<flow>              hash    ids, followers and open parents of a flow's tasks      the flow, its results
q:<queue>:waiting        zset    tasks that wait for others of their flows              the queue
q:<queue>:limited        zset    who waits for a limit, all of one limit together        the queue
q:<queue>:called         hash    rate to whom it lets start next                        the queue
slots:c:<key>            zset    ids that hold a slot of a concurrency limit             settling, poller
waits:c:<key>            zset    queues in which somebody waits for a slot              30 days
rate:r:<key>             string  when the next start conforms, in microseconds          that moment
limit:<limit>            string  how much a limit is, as the newest task says           30 days
seq                      string  counter that orders equal priorities                   the tag
=======================  ======  =====================================================  ==================

Example:

    >>> from django_redis_components.taskqueue import get_queue
    >>> get_queue("default").depths().ready
    0

See also: `signals`, `logs`, and `django_redis_components.locks` for ``@lock(…, on_conflict="delay")`` inside a task.
"""

from __future__ import annotations

from django_redis_components.taskqueue.exceptions import (
    FlowDoesNotExist,
    InvalidTask,
    LeaseLost,
    NotScheduled,
    OutcomeRefused,
    ParentFailed,
    ParentsLost,
    PartiallyEnqueued,
    ResultTooLarge,
    SoftTimeLimitExceeded,
    TaskCancelled,
    TaskFailed,
    TaskNotFinished,
    TaskQueueError,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TimeLimitExceeded,
    UnknownQueue,
    WaitTimeout,
    WorkerLost,
)
from django_redis_components.taskqueue.flows.sent import FlowResult, aget_flow, get_flow
from django_redis_components.taskqueue.flows.signatures import Signature, chain, group
from django_redis_components.taskqueue.operations.errors import ErrorGroup
from django_redis_components.taskqueue.operations.metrics import Counts, Metrics, Span, TaskMetrics
from django_redis_components.taskqueue.operations.queue import Purge, Queue, get_queue
from django_redis_components.taskqueue.operations.spread import Spread
from django_redis_components.taskqueue.periodic.declared import cron, every
from django_redis_components.taskqueue.periodic.timetable import ScheduleInfo, aschedules, schedules
from django_redis_components.taskqueue.tasks.backoff import exponential
from django_redis_components.taskqueue.tasks.context import TaskContext
from django_redis_components.taskqueue.tasks.decorator import task
from django_redis_components.taskqueue.tasks.errors import TaskError
from django_redis_components.taskqueue.tasks.facts import TaskResultStatus
from django_redis_components.taskqueue.tasks.limits import Concurrency, Rate
from django_redis_components.taskqueue.tasks.notes import Progress
from django_redis_components.taskqueue.tasks.result import TaskResult
from django_redis_components.taskqueue.tasks.task import Task
from django_redis_components.taskqueue.tasks.timeline import TaskRun
from django_redis_components.taskqueue.tasks.unique import Unique

__all__ = [
    "Concurrency",
    "Counts",
    "ErrorGroup",
    "FlowDoesNotExist",
    "FlowResult",
    "InvalidTask",
    "LeaseLost",
    "Metrics",
    "NotScheduled",
    "OutcomeRefused",
    "ParentFailed",
    "ParentsLost",
    "PartiallyEnqueued",
    "Progress",
    "Purge",
    "Queue",
    "Rate",
    "ResultTooLarge",
    "ScheduleInfo",
    "Signature",
    "SoftTimeLimitExceeded",
    "Span",
    "Spread",
    "Task",
    "TaskCancelled",
    "TaskContext",
    "TaskError",
    "TaskFailed",
    "TaskMetrics",
    "TaskNotFinished",
    "TaskQueueError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "TaskRun",
    "TimeLimitExceeded",
    "Unique",
    "UnknownQueue",
    "WaitTimeout",
    "WorkerLost",
    "aget_flow",
    "aschedules",
    "chain",
    "cron",
    "every",
    "exponential",
    "get_flow",
    "get_queue",
    "group",
    "schedules",
    "task",
]
