// The belated service from TypeScript: browsers, Node, Deno. Made from its OpenAPI text by tools/other_languages.py.
//
//     const service = new Belated("http://127.0.0.1:8000", token);
//     const key = { "Idempotency-Key": crypto.randomUUID() }; // the same again gets the same decision again
//     const decision = (await service.postDecisions("ads", {}, key)) as Decision;
//     await service.postFeedback("ads", { ticket: decision.ticket, value: 1.0 }); // whenever it is known

export type NewExperiment = { name: string; actions: Array<string>; forecaster: Record<string, unknown> | string; reward_range?: Array<number>; expiry_seconds?: number | null; on_expiry?: string | number; seed?: number | null; limits?: Limits; retention_seconds?: number | null; features?: Array<Feature> | null };
export type Limits = { outstanding?: number };
export type NewRules = { expiry_seconds?: number | null; on_expiry?: string | number; limits?: NewLimits; retention_seconds?: number | null };
export type NewLimits = { outstanding?: number };
export type NewDecisions = { context?: number | Array<number> | Record<string, unknown> | null; count?: number | null; contexts?: Array<number | Array<number> | Record<string, unknown>> | null; allowed?: Array<string> | null };
export type NewFeedback = { ticket: string; value: number | string | Array<number> };
export type Cancellation = { ticket: string };
export type Replacement = { action: string; new: string };
export type NewAction = { name: string };
export type Failure = { error: { kind: string; message: string } };
export type Experiment = { name: string; actions: Array<string>; forecaster: Record<string, unknown>; created_at: number; archived_at: number | null; reward_range?: Array<number>; expiry_seconds?: number | null; on_expiry?: string | number; seed?: number; limits?: { outstanding: number }; retention_seconds?: number | null; read_only?: string | null; warnings?: Array<string>; propensity?: boolean; features?: Array<Feature> | null; context_size?: number };
export type Feature = { kind: "number"; name: string; default?: number | null; missing?: "refuse" | "slot"; low?: number | null; high?: number | null; mean?: number | null; scale?: number | null; outside?: "clip" | "refuse" } | { kind: "category"; name: string; default?: string | number | Array<string | number> | null; missing?: "refuse" | "slot"; many?: boolean; values: Array<string | number>; unknown?: "refuse" | "slot" } | { kind: "hashed"; name: string; default?: string | number | Array<string | number> | null; missing?: "refuse" | "slot"; many?: boolean; slots: number; signed?: boolean } | { kind: "boolean"; name: string; default?: boolean | null; missing?: "refuse" | "slot" } | { kind: "intercept"; name?: string } | { kind: "ignored"; name?: string };
export type Experiments = { experiments: Array<Experiment> };
export type Decision = { ticket: string; action: number; name: string; probability: number | null; round: number; expires_at?: number | null };
export type Decisions = { decisions: Array<Decision> };
export type DecisionNow = { ticket: string; action: number; name: string; probability: number | null; round: number; state: "open" | "closed" | "expired" | "cancelled"; value?: unknown; decided_at?: number; context?: unknown; allowed?: unknown; expires_at?: number | null; closed_at?: number | null; replaced?: boolean; remarks?: Array<{ kind: string; value: unknown; at: number }> };
export type Outcome = { ticket?: string | null; status: "applied" | "duplicate" | "late" | "cancelled" | "error"; error?: { kind?: string; message?: string } };
export type Outcomes = { results: Array<Outcome> };
export type Statistics = { decisions: number; feedback: number; outstanding: number; peak: number; instances: number; late: number; expired: number; cancelled: number; conflicts: number; duplicates: number; unknown?: number; pulls: Array<number>; actions?: Array<Record<string, unknown>>; delays?: Record<string, unknown>; series?: Record<string, unknown>; price?: Record<string, unknown>; warnings?: Array<string>; notes?: Array<string>; at?: number; lag_seconds?: number };
export type Overview = { at: number; lag_seconds?: number; warnings?: Array<string>; experiments: Array<Experiment>; unopened: Array<{ name: string; reason: string }>; replicas: Array<Replica> };
export type Replica = { name: string; version: string; at?: number; silent: number; experiments: number; events: number; seconds: number };
export type Log = { lines: Array<Line> };
export type Line = { at: number; who: string; address: string; what: string; experiment: string | null; detail: string };
export type Deleted = { name: string; status: "deleted" };
export type Health = { status: string; version: string };

/** What the service refused: `kind` is for programs, `status` is HTTP's, `retryAfter` is in seconds. */
export class BelatedError extends Error {
  kind: string;
  status: number;
  retryAfter: number;

  constructor(kind: string, message: string, status: number, retryAfter: number) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export class Belated {
  url: string;
  token: string | undefined;

  constructor(url: string, token?: string) {
    this.url = url.replace(/\/+$/, "");
    this.token = token;
  }

  private async ask<Answer>(method: string, path: string, body?: unknown, more: object = {}): Promise<Answer> {
    const headers: Record<string, string> = { ...more };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    const answer = await fetch(this.url + path, { method, headers, body: JSON.stringify(body) });
    const json = (answer.headers.get("content-type") ?? "").startsWith("application/json");
    const said = json ? await answer.json() : await answer.text();
    if (answer.ok) return said;
    const { kind, message } = said.error ?? { kind: "unexpected", message: String(said) };
    throw new BelatedError(kind, message, answer.status, Number(answer.headers.get("retry-after") ?? 0));
  }

  /**
   * Create an experiment. The forecaster and its learner are those of `belated catalog`; the learner takes its
   * number of actions from the list of names. Decisions expire after expiry_seconds (never if it is left out):
   * with on_expiry 'drop' nothing is learned, with a number that reward is learned, which biases what is learned.
   * With `features` contexts are objects, and a learner takes its number of features from them.
   */
  postExperiments(body: NewExperiment): Promise<Experiment> {
    return this.ask("POST", `/v1/experiments`, body);
  }

  /**
   * All experiments.
   */
  getExperiments(): Promise<Experiments> {
    return this.ask("GET", `/v1/experiments`);
  }

  /**
   * One experiment.
   */
  getExperiment(name: string): Promise<Experiment> {
    return this.ask("GET", `/v1/experiments/${encodeURIComponent(name)}`);
  }

  /**
   * Change the rules of an experiment; what is left out stays. Decisions that are open keep the time when they
   * expire; on_expiry holds for all that expire from now on.
   */
  patchExperiment(name: string, body: NewRules): Promise<Experiment> {
    return this.ask("PATCH", `/v1/experiments/${encodeURIComponent(name)}`, body);
  }

  /**
   * Decide now. With an Idempotency-Key (kept for 24 hours) asking again gives the same answer. `count` or
   * `contexts` ask for many at once; `allowed` names the actions that are eligible right now. A context is a list
   * of numbers; where the experiment states its features, an object with their names as keys.
   */
  postDecisions(name: string, body: NewDecisions, headers?: { "Idempotency-Key"?: string }): Promise<Decision | Decisions> {
    return this.ask("POST", `/v1/experiments/${encodeURIComponent(name)}/decisions`, body, headers);
  }

  /**
   * A decision as it is now, with its feedback if there is any.
   */
  getDecision(name: string, ticket: string): Promise<DecisionNow> {
    return this.ask("GET", `/v1/experiments/${encodeURIComponent(name)}/decisions/${encodeURIComponent(ticket)}`);
  }

  /**
   * Learn when the feedback comes, in any order: one, or a list, which always answers 200 with a status for each.
   * The same value again is a duplicate and changes nothing.
   */
  postFeedback(name: string, body: NewFeedback | Array<NewFeedback>): Promise<Outcome | Outcomes> {
    return this.ask("POST", `/v1/experiments/${encodeURIComponent(name)}/feedback`, body);
  }

  /**
   * The decision was never shown: its instance is free again and nothing is learned. One, or a list.
   */
  postCancellations(name: string, body: Cancellation | Array<Cancellation>): Promise<Outcome | Outcomes> {
    return this.ask("POST", `/v1/experiments/${encodeURIComponent(name)}/cancellations`, body);
  }

  /**
   * An action is retired and a new one takes its number, unknown in every state. Feedback for open decisions of
   * the old one is recorded and not learned. Not every learner can do it.
   */
  postReplacements(name: string, body: Replacement): Promise<Experiment> {
    return this.ask("POST", `/v1/experiments/${encodeURIComponent(name)}/replacements`, body);
  }

  /**
   * One more action, with the next number, unknown in every state. Open decisions stay as they are. Not every
   * learner can do it.
   */
  postActions(name: string, body: NewAction): Promise<Experiment> {
    return this.ask("POST", `/v1/experiments/${encodeURIComponent(name)}/actions`, body);
  }

  /**
   * No more decisions; open ones may still have feedback.
   */
  postArchive(name: string): Promise<Experiment> {
    return this.ask("POST", `/v1/experiments/${encodeURIComponent(name)}/archive`);
  }

  /**
   * Decisions again, after an archive.
   */
  postUnarchive(name: string): Promise<Experiment> {
    return this.ask("POST", `/v1/experiments/${encodeURIComponent(name)}/unarchive`);
  }

  /**
   * Counts, the peak, rewards with intervals, delays and their quantiles, queues, how they went over time, the
   * price of delay from the theorems, and warnings where theory is bent.
   */
  getStatistics(name: string): Promise<Statistics> {
    return this.ask("GET", `/v1/experiments/${encodeURIComponent(name)}/statistics`);
  }

  /**
   * All experiments with their most important statistics, as the dashboard shows them; and the processes that
   * write to the database, which a token for some experiments is not told of.
   */
  getOverview(): Promise<Overview> {
    return this.ask("GET", `/v1/overview`);
  }

  /**
   * Who did what: the last 100 lines, newest first, of who created, changed and deleted experiments, made tokens,
   * or came with a wrong one. It needs a token for all experiments.
   */
  getLog(): Promise<Log> {
    return this.ask("GET", `/v1/log`);
  }

  /**
   * Numbers for Prometheus. Requests, batches, outcomes and what waits are those of this machine, and sum over
   * machines; belated_experiment_decisions_total and the like come from the database and are the same on all.
   * belated_database_up is 0 where the database does not answer.
   */
  getMetrics(): Promise<string> {
    return this.ask("GET", `/metrics`);
  }

  /**
   * Whether the process is alive, whatever the database does.
   */
  getHealth(): Promise<Health> {
    return this.ask("GET", `/health`);
  }

  /**
   * Whether it can do its work: the database answers and takes writes.
   */
  getReady(): Promise<Health> {
    return this.ask("GET", `/ready`);
  }

  /**
   * Delete an experiment with all its data: decisions, feedback, events, states, statistics. It is gone at once
   * and cannot be undone; the answer comes when its data is gone too.
   */
  deleteExperiment(name: string): Promise<Deleted> {
    return this.ask("DELETE", `/v1/experiments/${encodeURIComponent(name)}`);
  }
}
