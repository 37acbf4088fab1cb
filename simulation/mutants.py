"""Faults planted in the product, each taking one guard away: what `make mutants` must catch, every one.

A mutant is a change of the source, as text that occurs exactly once; a test tells when the source moved on. `failure`
is the line of the mission's checklist that the guard prevents. Most are caught by the simulation, with the settings
that are named; a guard that the simulation cannot prove is pinned by tests, which are named instead.
docs/simulation-mutants.md says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulation.settings import Settings

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Edit:
    """`file` below lambdas/duebook; `old` occurs there exactly once."""

    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        return ROOT / "lambdas" / "duebook" / self.file

    @property
    def module(self) -> str:
        return "duebook." + self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    guard: str
    failure: str
    edits: Sequence[Edit]
    settings: Sequence[Settings] = ()
    tests: Sequence[str] = ()
    """Instead of the simulation: tests of which at least one must fail."""


def small(*seeds: int, **more: object) -> tuple[Settings, ...]:
    """Runs of some seconds."""
    values: dict[str, object] = {"bookings": 80, "days": 60, "faults": 2.0} | more
    return tuple(Settings(seed=seed, **values) for seed in seeds)  # type: ignore[arg-type]


ANY = small(1, 2)
MARKET = small(5, bookings=400, days=150)
"""What a small run seldom meets."""
PAUSES = small(1, bookings=250, faults=150.0, only_faults=("pause",), payments="provider")
"""Every other call hangs while everything else goes on."""
SAVED_ERRORS = small(1, bookings=300, faults=20.0, only_faults=("provider_saved_error",), payments="provider")
"""The provider replays an error under its key, half of the time after it has moved the money."""

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="version-condition",
        guard="a booking is written only over the version that was read, and a version's history row only once",
        failure="A24/A38",
        edits=(
            Edit(
                "service/bookings.py",
                'If(equals={"version": before.version}) if before else If(absent=True)',
                "If(exists=True) if before else If(absent=True)",
            ),
            Edit("service/rows.py", "return Put(item=row, condition=If(absent=True))", "return Put(item=row)"),
        ),
        settings=PAUSES,
    ),
    Mutant(
        name="two-writes",
        guard="booking, jobs and history are one transaction",
        failure="A23",
        edits=(
            Edit(
                "service/bookings.py",
                "        self.table.write(*self._writes(before, step, cause, key), *also)",
                "        first, *rest = self._writes(before, step, cause, key)\n"
                "        self.table.write(first)\n"
                "        self.table.write(*rest, *also)",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="catch-up-first",
        guard="a command meets the booking with everything that is due applied",
        failure="A2",
        edits=(
            Edit(
                "service/bookings.py",
                "booking = self.caught_up(self.load(booking_id), cause, now)",
                "booking = self.load(booking_id)",
            ),
        ),
        settings=MARKET,
    ),
    Mutant(
        name="jobs-against-the-map",
        guard="job rows are written by the difference to the map as last written",
        failure="A21",
        edits=(
            Edit(
                "service/bookings.py",
                "for job in sorted(old.keys() - after.planned.keys()):",
                "for job in sorted(old.keys() - after.planned.keys() - {'complete_order'}):",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="refresh",
        guard="job rows that changed code derives otherwise are put right when the booking is looked at",
        failure="A21",
        edits=(Edit("domain/transitions.py", "    if wanted == written:\n", "    if wanted or not wanted:\n"),),
        settings=ANY,
    ),
    Mutant(
        name="kept-generation",
        guard="a job that did not change keeps its generation, a job that did gets a new one",
        failure="A7",
        edits=(
            Edit(
                "domain/booking.py",
                "if name in old and old[name].run_at == run_at and name not in renew",
                "if name in old and name not in renew",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="planned-instants",
        guard="instants derive from planned instants, never from when something was processed",
        failure="A25",
        edits=(
            Edit(
                "domain/transitions.py",
                "        replace(engagement, state=state),\n        type_,",
                "        replace(engagement, state=state, event_end=replace(engagement.event_end, instant=now)),\n"
                "        type_,",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="deadline-before-the-event",
        guard="the chef's deadline is never later than the event's start",
        failure="A2",
        edits=(
            Edit(
                "domain/booking.py",
                "return min(self.requested_at + timedelta(seconds=self.policy.accept_within), "
                "self.event_start.instant)",
                "return self.requested_at + timedelta(seconds=self.policy.accept_within)",
            ),
        ),
        tests=("tests/unit/domain/test_transitions.py::test_a_deadline_is_never_later_than_the_start_of_the_event",),
    ),
    Mutant(
        name="half-open-deadlines",
        guard="what is due at an instant is due at it: an act counts strictly before its deadline",
        failure="A3",
        edits=(Edit("domain/transitions.py", "        if run_at > now:\n", "        if run_at >= now:\n"),),
        tests=("tests/unit/domain/test_transitions.py::test_a_deadline_is_half_open",),
    ),
    Mutant(
        name="freeze-payout",
        guard="an open dispute derives no payout",
        failure="A8",
        edits=(
            Edit(
                "domain/booking.py",
                "if engagement.state in PAYABLE and not engagement.stops:",
                "if engagement.state in PAYABLE:",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="freeze-completion",
        guard="an open dispute stops the pending completion",
        failure="A8",
        edits=(
            Edit(
                "domain/booking.py",
                "if engagement.state in (State.PAID, State.EVENT_CLOSED) and not engagement.is_disputed:",
                "if engagement.state in (State.PAID, State.EVENT_CLOSED):",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="held-payout",
        guard="a payout that was taken over held is not decided until a person releases it",
        failure="A8",
        edits=(Edit("domain/booking.py", "Stop.HELD: self.is_held}", "Stop.HELD: False}"),),
        settings=MARKET,
    ),
    Mutant(
        name="payout-before-its-time",
        guard="the payout waits for the time in which it can be disputed",
        failure="A1",
        edits=(
            Edit(
                "domain/booking.py",
                "return self.complete_at + timedelta(seconds=self.policy.dispute_within)",
                "return self.complete_at",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="refund-cap",
        guard="a settlement gives back no more than is left of the charge",
        failure="A17",
        edits=(
            Edit(
                "domain/dispute_steps.py",
                "engagement, min(refund, engagement.refundable), now)",
                "engagement, refund, now)",
            ),
        ),
        tests=(
            "tests/unit/domain/test_disputes.py::test_a_settlement_gives_back_no_more_than_a_lost_chargeback_leaves",
        ),
    ),
    Mutant(
        name="remainder",
        guard="the chef is paid what was captured and did not go back",
        failure="A4",
        edits=(
            Edit(
                "domain/transitions.py",
                "    rest = max(0, engagement.captured - engagement.refunded - engagement.gone)",
                "    rest = max(0, engagement.captured - engagement.gone)",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="settle-once",
        guard="a settlement that was carried out is not carried out again",
        failure="A17",
        edits=(
            Edit(
                "domain/dispute_steps.py",
                "    if dispute.status is DisputeStatus.SETTLED:\n        return None\n    if not rules.may_settle",
                "    if dispute.status is not DisputeStatus.SETTLED and not rules.may_settle",
            ),
        ),
        settings=small(
            1, bookings=300, faults=10.0, only_faults=("step_unanswered", "step_fails", "crash", "execution_killed")
        ),
    ),
    Mutant(
        name="balanced-ledger",
        guard="each entry of the ledger balances",
        failure="A17",
        edits=(
            Edit("domain/ledger.py", "        if sum(self.lines.values()) != 0:\n", "        if not self.currency:\n"),
            Edit(
                "domain/ledger.py",
                "        FEE: -e.fee,\n",
                "        FEE: -e.fee if e.fee != 1 else 0,\n        HELD: -held(e) if e.refunded == 0 else 0,\n",
            ),
        ),
        tests=("tests/unit/domain/test_ledger.py::test_an_entry_that_does_not_balance_is_refused",),
    ),
    Mutant(
        name="claim-before-the-call",
        guard="the row says `unknown` before the provider is called",
        failure="B1-B8",
        edits=(
            Edit(
                "service/pay.py",
                "    bookings.commit(booking, _attempted(booking, claimed, now, reason), cause, also=guards)\n"
                "    outcome = provider.send(claimed, now)\n",
                "    outcome = provider.send(claimed, now)\n"
                "    bookings.commit(booking, _attempted(booking, claimed, now, reason), cause, also=guards)\n",
            ),
        ),
        settings=small(1, bookings=300, faults=40.0, only_faults=("pause", "crash"), payments="provider"),
    ),
    Mutant(
        name="answer-of-its-request",
        guard="a failure ends only the request that it answers",
        failure="B1-B8",
        edits=(
            Edit(
                "service/pay.py",
                "        if is_failure and key is not None and key != latest.key:\n            return None\n",
                "",
            ),
        ),
        tests=(
            "tests/unit/service/test_commands.py::test_a_failure_of_an_earlier_request_that_comes_again_does_not_end_the_one_that_runs",
        ),
    ),
    Mutant(
        name="done-after-failed",
        guard="money that moved is recorded over a failure",
        failure="B1-B8",
        edits=(
            Edit(
                "service/pay.py",
                "            case (Status.DONE, _) | (Status.FAILED, Failed()):\n",
                "            case ((Status.DONE | Status.FAILED), _):\n",
            ),
        ),
        tests=("tests/unit/service/test_commands.py::test_money_that_moved_after_all_is_recorded_over_a_failure",),
    ),
    Mutant(
        name="lease",
        guard="an attempt that may still run keeps others away",
        failure="A13-A16",
        edits=(Edit("domain/payment.py", "LEASE = timedelta(minutes=3)", "LEASE = timedelta()"),),
        tests=(
            "tests/unit/domain/test_payment_fence.py::test_a_claim_says_unknown_with_a_lease_longer_than_any_call_can_take",
        ),
    ),
    Mutant(
        name="look-up-before-resend",
        guard="after 23 h the provider may have forgotten the key: the payment is looked up first",
        failure="A36/A37",
        edits=(
            Edit(
                "domain/payment.py",
                "    if now < payment.epoch_started_at + KEY_IS_SAFE and not payment.look_up_first:\n",
                "    if payment.epoch_started_at:\n",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="key-reused-too-long",
        guard="a key is reused for 23 h at most",
        failure="A36/A37",
        edits=(Edit("domain/payment.py", "KEY_IS_SAFE = timedelta(hours=23)", "KEY_IS_SAFE = timedelta(days=9)"),),
        tests=("tests/unit/money/test_named_cases.py::test_a_forgotten_key_is_not_sent_again_but_looked_up",),
    ),
    Mutant(
        name="saved-error",
        guard="an error that the provider replays is looked up, not sent again under its key",
        failure="A36/A37",
        edits=(
            Edit(
                "domain/payment.py",
                "look_up_first = payment.look_up_first or saved_error",
                "look_up_first = payment.look_up_first",
            ),
        ),
        settings=SAVED_ERRORS,
    ),
    Mutant(
        name="lists-lag",
        guard="a look-up waits two hours after the last attempt, for lists lag",
        failure="A17",
        edits=(Edit("domain/payment.py", "LISTS_LAG = timedelta(hours=2)", "LISTS_LAG = timedelta()"),),
        settings=ANY,
    ),
    Mutant(
        name="epoch",
        guard="what was looked up and not found goes under a new key",
        failure="A17",
        edits=(
            Edit(
                "domain/payment.py",
                "    return replace(\n        payment,\n        epoch=payment.epoch + 1,\n"
                "        epoch_started_at=now,",
                "    return replace(\n        payment,\n        epoch=payment.epoch,\n        epoch_started_at=now,",
            ),
        ),
        settings=SAVED_ERRORS,
    ),
    Mutant(
        name="epoch-of-a-retry",
        guard="after a definite failure a person's retry goes under a new key",
        failure="A17",
        edits=(
            Edit(
                "domain/payment.py",
                "                status=Status.INTENT,\n                epoch=payment.epoch + 1,\n",
                "                status=Status.INTENT,\n                epoch=payment.epoch,\n",
            ),
        ),
        tests=(
            "tests/unit/service/test_commands.py::test_a_failure_waits_for_a_person_whose_retry_asks_under_a_new_key",
        ),
    ),
    Mutant(
        name="account-of-the-key",
        guard="one key always carries the same account",
        failure="A17",
        edits=(
            Edit(
                "domain/payment.py",
                "account=payment.account if payment.epoch_started_at else account,",
                "account=account,",
            ),
        ),
        tests=(
            "tests/unit/domain/test_payment_fence.py::test_one_key_carries_the_same_account_though_the_chef_has_another_one_since",
        ),
    ),
    Mutant(
        name="hold-is-checked-with-the-claim",
        guard="an open chargeback parks a payout",
        failure="A8",
        edits=(Edit("domain/chef.py", "    if frozen:\n", "    if frozen and switch.paused:\n"),),
        tests=(
            "tests/unit/service/test_money.py::test_a_chargeback_parks_a_payout_that_was_decided_and_a_win_lets_it_go",
        ),
    ),
    Mutant(
        name="sweeper",
        guard="the sweeper is the second wake-up",
        failure="A10/A11",
        edits=(
            Edit(
                "service/sweep.py",
                "    _wake_overdue(bookings, queues, now, swept, time_left)\n    _publish",
                "    _publish",
            ),
        ),
        settings=small(1, faults=10.0, only_faults=("wake_up_lost",), reconcile_days=20),
    ),
    Mutant(
        name="sweeper-pushes-out",
        guard="the sweeper pushes a row's wake-up out before it wakes it",
        failure="B1-B8",
        edits=(
            Edit(
                "service/sweep.py",
                "        bookings.table.write(rows.job_wake_later(row, now + backoff))\n",
                "        assert backoff\n",
            ),
        ),
        tests=(
            "tests/unit/service/test_failures.py::test_what_was_overdue_is_left_in_peace_for_a_backoff_and_then_woken_again",
        ),
    ),
    Mutant(
        name="outbox-is-swept",
        guard="an event that the publisher lost is published by the sweeper",
        failure="A23",
        edits=(
            Edit(
                "service/sweep.py",
                "    _publish_stuck(bookings, bus, now, swept, time_left)\n    if",
                "    if",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="published-after-accepted",
        guard="a row leaves the outbox only when the bus accepted its event",
        failure="A36/A37",
        edits=(
            Edit("service/publish.py", "        if failure is None:\n", "        if failure is None or failure:\n"),
        ),
        tests=(
            "tests/unit/service/test_failures.py::test_an_event_that_the_bus_keeps_refusing_stays_in_the_outbox_ever_more_seldom_and_is_never_lost",
        ),
    ),
    Mutant(
        name="second-read",
        guard="the projector reads again after it wrote",
        failure="A7",
        edits=(
            Edit(
                "service/project.py",
                "        if _essence(again) == _essence(row):\n            return done\n",
                "        if _essence(again) == _essence(row) or row:\n            return done\n",
            ),
        ),
        tests=(
            "tests/unit/service/test_failures.py::test_a_row_that_never_comes_to_rest_is_put_off_instead_of_looked_at_for_ever",
        ),
    ),
    Mutant(
        name="projection-is-put-off",
        guard="a projection that fails goes to its queue",
        failure="A24/A38",
        edits=(
            Edit(
                "handlers/projector.py",
                "        wiring.queues().project(booking_id, job)\n",
                "        assert booking_id\n",
            ),
        ),
        tests=(
            "tests/unit/service/test_failures.py::test_a_projection_that_fails_again_comes_again_after_its_visibility",
        ),
    ),
    Mutant(
        name="rounded-to-the-minute",
        guard="a schedule stands at a whole minute",
        failure="A26",
        edits=(
            Edit(
                "service/project.py", "        at=whole_minute(rows.run_at(row)),\n", "        at=rows.run_at(row),\n"
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="rounded-up",
        guard="a schedule's minute is never before its instant",
        failure="A26",
        edits=(
            Edit(
                "domain/times.py",
                "    return floor if floor == instant else floor + timedelta(minutes=1)\n",
                "    return floor\n",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="delete-schedule",
        guard="the schedule of a job that is gone is deleted",
        failure="A19",
        edits=(
            Edit(
                "service/project.py",
                'return "deleted" if schedules.delete(name) else "nothing to delete"',
                'return "deleted"',
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="sent-again-when-early",
        guard="a wake-up that comes too early is sent again",
        failure="A25",
        edits=(
            Edit(
                "service/wake.py",
                "    return wake_at(queues, booking.booking_id, job, planned.generation, planned.run_at, now)\n",
                '    return "not due"\n',
            ),
        ),
        settings=small(1, faults=10.0, only_faults=("wake_up_early",)),
    ),
    Mutant(
        name="longest-delay",
        guard="SQS delays a message 15 minutes at most",
        failure="A35",
        edits=(
            Edit("service/wake.py", "    if left > LONGEST_DELAY:\n", "    if left > 40 * LONGEST_DELAY:\n"),
            Edit("service/wake.py", "delay=min(delay, LONGEST_DELAY))", "delay=delay)"),
        ),
        tests=(
            "tests/unit/service/test_whole_bookings.py::test_a_wake_up_that_is_far_too_early_has_its_schedule_asserted_again",
        ),
    ),
    Mutant(
        name="partial-batch",
        guard="a message that failed comes again",
        failure="C1-C5",
        edits=(
            Edit(
                "handlers/support.py",
                '            failed.append({"itemIdentifier": key})\n',
                "            assert key\n",
            ),
        ),
        tests=("tests/unit/handlers/test_batches.py::test_a_poison_message_fails_alone_wherever_it_stands",),
    ),
    Mutant(
        name="recorder-generation",
        guard="a failure of an old generation is not counted against the job as it is now",
        failure="A19",
        edits=(
            Edit(
                "service/record.py",
                'row["generation"] != wake_up.generation or row["status"]',
                'row["status"]',
            ),
        ),
        tests=(
            "tests/unit/service/test_failures.py::test_the_recorder_ignores_the_failure_of_a_generation_that_is_over",
        ),
    ),
    Mutant(
        name="dead-after-a-day",
        guard="a job dies only when its rounds of attempts span more than a day",
        failure="A13-A16",
        edits=(Edit("service/record.py", "DEAD_AFTER = timedelta(hours=24)", "DEAD_AFTER = timedelta(minutes=30)"),),
        settings=small(1, faults=4.0, only_faults=("worker_down", "payments_down")),
    ),
    Mutant(
        name="redrive-is-a-new-generation",
        guard="a redriven job's row gets a new generation",
        failure="A19",
        edits=(
            Edit(
                "domain/transitions.py",
                "        booking=replanned(booking, booking, renew=frozenset({job})),\n",
                "        booking=replanned(booking, booking),\n",
            ),
        ),
        tests=(
            "tests/unit/domain/test_transitions.py::test_a_redriven_job_gets_a_new_generation_and_its_neighbours_keep_theirs",
        ),
    ),
    Mutant(
        name="reconcile-jobs",
        guard="reconcile finds a schedule that is lost",
        failure="A18",
        edits=(
            Edit(
                "service/reconcile.py",
                "            if found != request_for(row):\n",
                "            if found and not row:\n",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="reconcile-schedules",
        guard="reconcile finds a schedule that no job stands behind",
        failure="A19",
        edits=(
            Edit(
                "service/reconcile.py",
                '        if row is None or row["status"] != rows.PENDING:\n',
                '        if row is not None and row["status"] != rows.PENDING:\n',
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="reconcile-bookings",
        guard="reconcile finds bookings whose jobs changed code derives otherwise",
        failure="A21",
        edits=(Edit("service/reconcile.py", "        step = refresh(booking, now)\n", "        step = None\n"),),
        settings=ANY,
    ),
    Mutant(
        name="commit-then-token",
        guard="an answer is committed before its token is read and sent",
        failure="A31",
        edits=(
            Edit(
                "service/dispute.py",
                "        booking, applied = self.bookings.change(parent(dispute_id), API, known, key)\n"
                "        assert booking is not None\n"
                "        self._wake_workflow(dispute_id)\n",
                "        self._wake_workflow(dispute_id)\n"
                "        booking, applied = self.bookings.change(parent(dispute_id), API, known, key)\n"
                "        assert booking is not None\n",
            ),
        ),
        settings=PAUSES,
    ),
    Mutant(
        name="notifier-unanswered",
        guard="the notifier stores its token only while the answer is missing, else completes the task itself",
        failure="A31",
        edits=(
            Edit(
                "service/dispute.py",
                "            if dispute.run != run or dispute.status not in _STAGES[stage] or not waits:\n",
                "            if dispute.run != run:\n",
            ),
        ),
        tests=(
            "tests/unit/service/test_disputes.py::test_a_notifier_that_finds_an_answer_completes_its_state_and_stores_nothing",
        ),
    ),
    Mutant(
        name="silence-after-the-deadline",
        guard="silence decides only once the deadline is over",
        failure="A28",
        edits=(
            Edit(
                "domain/dispute_steps.py",
                "    over = dispute.deadline is not None and now >= dispute.deadline\n",
                "    over = dispute.deadline is not None\n",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="early-wait",
        guard="a look that comes moments before the deadline waits for it",
        failure="A28",
        edits=(Edit("service/dispute.py", "EARLY = timedelta(seconds=2)", "EARLY = timedelta()"),),
        tests=("tests/integration/test_dispute_workflow.py::test_a_wait_that_ends_a_second_early_is_sat_out",),
    ),
    Mutant(
        name="watch-restarts",
        guard="an execution that is gone is followed by the next run",
        failure="A10/A11",
        edits=(
            Edit(
                "domain/dispute.py",
                "    return replace(dispute, run=dispute.run + 1, restarts=dispute.restarts + 1, watch_from=now)\n",
                "    return replace(dispute, restarts=dispute.restarts + 1, watch_from=now)\n",
            ),
        ),
        tests=(
            "tests/integration/test_dispute_workflow.py::test_an_execution_that_is_killed_by_hand_is_followed_by_one_that_goes_on_where_the_row_stands",
        ),
    ),
    Mutant(
        name="watch-is-derived",
        guard="an open dispute derives a second wake-up",
        failure="A10/A11",
        edits=(
            Edit(
                "domain/booking.py",
                "    if engagement.dispute is not None and engagement.dispute.watch_at is not None:\n",
                "    if engagement.dispute is not None and engagement.dispute.run < 0:\n",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="reply-deadline",
        guard="the reply deadline runs from when the chef is asked",
        failure="A4",
        edits=(
            Edit(
                "domain/dispute.py",
                "    deadline = now + timedelta(seconds=policy.reply_within)\n    remind_at",
                "    deadline = dispute.opened_at + timedelta(seconds=policy.reply_within)\n    remind_at",
            ),
        ),
        settings=small(
            5, bookings=200, faults=5.0, only_faults=("record_delayed", "steps_down", "step_fails"), reconcile_days=20
        ),
    ),
    Mutant(
        name="old-run",
        guard="a run that a newer one has replaced does nothing any more",
        failure="A21",
        edits=(
            Edit(
                "service/dispute.py",
                "        if dispute.run != run:\n            return Route",
                "        if dispute.run < 0:\n            return Route",
            ),
        ),
        tests=(
            "tests/integration/test_dispute_workflow.py::test_a_run_that_a_newer_one_has_replaced_does_nothing_any_more",
        ),
    ),
    Mutant(
        name="idempotency-key",
        guard="a request that comes again under its key changes nothing",
        failure="A36/A37",
        edits=(Edit("service/bookings.py", "if key and self._seen(booking_id, key):", "if key and not booking_id:"),),
        tests=(
            "tests/unit/service/test_commands.py::test_a_replayed_key_does_nothing_even_where_the_command_could_apply_again",
        ),
    ),
    Mutant(
        name="newer-payload",
        guard="an own job that was asked for anew fires as it was asked for last",
        failure="A21",
        edits=(Edit("domain/transitions.py", "        return revision <= known.revision\n", "        return False\n"),),
        tests=("tests/unit/domain/test_own_jobs.py::test_a_put_is_applied_ignored_or_refused_by_revision_and_body",),
    ),
    Mutant(
        name="refunded-is-counted",
        guard="what goes back to the customer is no longer there for the chef",
        failure="A17",
        edits=(
            Edit(
                "domain/transitions.py",
                "    return replace(after, refunded=engagement.refunded + amount), payments\n",
                "    return after, payments\n",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="history-with-the-change",
        guard="every change has its history row, in the same transaction",
        failure="A23",
        edits=(
            Edit(
                "service/bookings.py",
                "        writes.append(rows.history_put(step, cause, key.value if key else None, payload))\n",
                '        if step.type != "booking.completed":\n'
                "            writes.append(rows.history_put(step, cause, key.value if key else None, payload))\n",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="open-payments-derive-a-job",
        guard="an open payment derives the job that wakes it",
        failure="A10/A11",
        edits=(
            Edit(
                "domain/booking.py",
                "            jobs[pay_job(number)] = payment.next_attempt_at\n",
                "            assert pay_job(number)\n",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="three-hours",
        guard="the order is completed some hours after the event, and the payout counts from there",
        failure="A1",
        edits=(
            Edit(
                "domain/booking.py",
                "return self.event_end.instant + timedelta(seconds=self.policy.complete_after)",
                "return self.event_end.instant",
            ),
        ),
        settings=ANY,
    ),
    Mutant(
        name="moved-money-is-booked",
        guard="money that moved is an entry of the ledger",
        failure="A18",
        edits=(
            Edit(
                "domain/ledger.py",
                "for payment in payments if payment.status is Status.DONE))",
                "for payment in payments if payment.status is Status.VOID))",
            ),
        ),
        settings=ANY,
    ),
)

BY_NAME: Mapping[str, Mutant] = {mutant.name: mutant for mutant in MUTANTS}
