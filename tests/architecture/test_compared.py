"""Each feature that docs/guides/compared.md says is here has a test, which is named here."""

from __future__ import annotations

import re

import pytest

from tests.architecture.sources import ROOT

PAGE = ROOT / "docs" / "guides" / "compared.md"

#: Row of the page -> file and name of a test of it.
TESTS = {
    "Tasks survive the death of their worker": (
        "taskqueue/chaos/test_kills.py",
        "test_kills_lose_no_task_and_explain_each_repeated_run",
    ),
    "Tasks survive an outage of the queue at the commit": (
        "contrib/outbox/test_enqueue.py",
        "test_commit_succeeds_while_redis_is_away_and_the_relay_sends_the_task",
    ),
    "Enqueue waits for replicas": (
        "taskqueue/enqueue/test_min_replicas.py",
        "test_acknowledged_task_is_on_the_replica",
    ),
    "Enqueue at the commit": ("taskqueue/enqueue/test_on_commit.py", "test_task_is_sent_when_the_transaction_commits"),
    "Idempotent enqueue by id": ("taskqueue/enqueue/test_own_ids.py", "test_concurrent_enqueues_accept_one_task"),
    "Unique: deduplicate, throttle, debounce, replace": (
        "taskqueue/enqueue/test_unique_conflicts.py",
        "test_last_arguments_are_run_once_under_the_first_id",
    ),
    "Retries with backoff and jitter, kept failures": (
        "taskqueue/enqueue/test_backoff.py",
        "test_default_backoff_is_exponential_with_jitter",
    ),
    "Run again later without using an attempt": (
        "taskqueue/worker/test_failures.py",
        "test_delayed_task_uses_no_attempt",
    ),
    "Priorities within a queue, strict and weighted queues": (
        "taskqueue/worker/test_queue_order.py",
        "test_a_worker_serves_queues_by_weight",
    ),
    "Delayed tasks, exact": ("taskqueue/supervisor/test_supervisor.py", "test_worker_without_poller_runs_due_tasks"),
    "Long tasks continue after a deploy or a crash": (
        "taskqueue/iterating/test_stopping.py",
        "test_task_survives_many_kills_and_stops",
    ),
    "Expiry": ("taskqueue/enqueue/test_expires.py", "test_expired_task_does_not_run"),
    "Soft and hard time limits": (
        "taskqueue/supervisor/test_termination.py",
        "test_running_task_is_cancelled_and_its_process_continues",
    ),
    "Cancel a running task": (
        "taskqueue/worker/test_cancel_running.py",
        "test_cancel_of_a_running_task_notifies_its_supervisor",
    ),
    "Change a pending task": ("management/test_tasks_command.py", "test_pending_task_is_updated"),
    "Start a task from the command line or a page": (
        "dashboard/test_task_enqueue.py",
        "test_call_is_enqueued_and_logged",
    ),
    "Global concurrency and rate, by key": (
        "taskqueue/enqueue/test_limits_model.py",
        "test_random_operations_never_exceed_limits_and_every_task_finishes",
    ),
    "Fair share: groups of a queue in turn": (
        "taskqueue/fair_share/test_turns.py",
        "test_two_clients_at_once_serve_each_task_once_and_in_turn",
    ),
    "One run for many calls, each with its outcome": (
        "taskqueue/batching/test_outcomes.py",
        "test_each_call_has_its_own_outcome",
    ),
    "Locks, semaphores and rate limits for any code": (
        "locks/chaos/test_history.py",
        "test_history_has_no_overlapping_holders_disordered_fences_or_stale_writes",
    ),
    "Chains, groups, callbacks": (
        "taskqueue/flows/test_flows.py",
        "test_task_after_a_group_receives_its_results_in_order",
    ),
    "Members of a flow that may fail, callbacks for complete and success": (
        "taskqueue/flows/test_flows_failures.py",
        "test_next_step_runs_whatever_has_ended_a_member_that_may_fail",
    ),
    "A running member adds members": ("taskqueue/flows/test_flows_added.py", "test_killed_worker_adds_nothing_twice"),
    "Results, progress, metadata": ("taskqueue/enqueue/test_context.py", "test_progress_is_written_after_an_outage"),
    "Lists of finished tasks": ("taskqueue/store/test_control_command.py", "test_finished_tasks_are_listed"),
    "Periodic tasks without a separate process": (
        "taskqueue/schedules/test_firing.py",
        "test_standby_poller_continues_after_a_crash",
    ),
    "Encrypted arguments": ("taskqueue/test_sealing.py", "test_arguments_are_sealed_in_redis_and_open_in_the_task"),
    "Schedules that users edit": ("management/test_celery_beat.py", "test_entries_become_schedules"),
    "Names and aliases of tasks": ("taskqueue/test_names.py", "test_task_runs_what_was_enqueued_under_an_alias"),
    "Routes and defaults of options": (
        "taskqueue/test_defaults.py",
        "test_call_precedes_decorator_precedes_route_precedes_default",
    ),
    "Middleware, hooks, signals, life cycle of workers": (
        "taskqueue/middleware/test_middleware.py",
        "test_error_of_around_run_is_the_outcome",
    ),
    "Coroutines beside threads": (
        "taskqueue/worker/test_coroutines.py",
        "test_coroutines_run_concurrently_beside_the_threads",
    ),
    "Several processes, restarts by memory or count": (
        "taskqueue/worker/test_restarts.py",
        "test_processes_are_replaced_after_max_tasks_without_loss",
    ),
    "Quiet, restart and stop workers from elsewhere": (
        "taskqueue/supervisor/test_remote_control.py",
        "test_one_process_is_restarted_after_its_task_and_another_is_stopped",
    ),
    "Change threads and queues of a live worker": (
        "management/test_worker_pools.py",
        "test_live_worker_is_changed_and_reset",
    ),
    "Pause a queue": ("taskqueue/store/test_control_pause.py", "test_paused_queue_is_not_fetched_until_it_is_resumed"),
    "Purge with undo, bulk retry, move, reschedule": (
        "taskqueue/store/test_control_purge.py",
        "test_restore_returns_all_tasks_in_order",
    ),
    "Web pages": ("dashboard/test_every_url.py", "test_each_role_gets_what_its_permissions_allow"),
    "Terminal view": ("management/test_top.py", "test_view_is_printed_once"),
    "Metrics, alerts, traces": (
        "contrib/prometheus/test_metrics.py",
        "test_a_scrape_reports_queues_outcomes_durations_and_workers",
    ),
    "Tests without a worker": ("testing/test_captured.py", "test_enqueued_task_is_collected_and_does_not_run"),
    "Redis Cluster and Sentinel": ("core/test_topology.py", "test_requests_follow_a_failover"),
    "Queues over several servers": (
        "taskqueue/shards/test_spread_queues.py",
        "test_worker_runs_the_tasks_of_all_shards_of_a_queue",
    ),
    "Django's Tasks framework": ("contrib/django_tasks/test_suite.py", "test_django_s_own_tests_of_tasks_pass"),
}


def rows() -> list[str]:
    """The features that the page says are here."""
    table = PAGE.read_text().partition("## Here")[2].partition("## Not here")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[4:] if line.startswith("| ")]


def test_each_feature_of_the_page_has_a_test() -> None:
    assert rows() == list(TESTS)


@pytest.mark.parametrize("feature", TESTS)
def test_test_of_a_feature_exists(feature: str) -> None:
    path, name = TESTS[feature]

    assert re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / path).read_text(), re.MULTILINE)
