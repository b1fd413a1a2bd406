// npm @azure/service-bus as a client: reads a scenario from standard input, runs it, prints the results as JSON
// (tests/emulators/servicebus/clients/scenario.py).
"use strict";

const { ServiceBusAdministrationClient, ServiceBusClient, parseServiceBusConnectionString } = require("@azure/service-bus");

const WAIT_SECONDS = 10;
const RETRIES = { maxRetries: 0, retryDelayInMs: 100, timeoutInMs: 20000 };
const FIELDS = [
  "messageId", "contentType", "correlationId", "subject", "to", "replyTo", "replyToSessionId", "timeToLive", "sessionId",
  "partitionKey", "deadLetterReason", "deadLetterErrorDescription",
];

const isMadeUp = (name, value) => name === "messageId" && /^[0-9a-f-]{32,36}$/.test(value);

function text(body) {
  if (!Buffer.isBuffer(body)) return body;
  const decoded = body.toString("utf8");
  return Buffer.from(decoded, "utf8").equals(body) ? decoded : `0x${body.toString("hex")}`;
}

function cell(value) {
  if (value instanceof Date) return value.toISOString();
  if (Buffer.isBuffer(value)) return `0x${value.toString("hex")}`;
  return value === undefined ? null : value;
}

function rendered(message) {
  const found = { body: text(message.body), count: message.deliveryCount, state: message.state };
  for (const name of FIELDS) {
    const value = message[name];
    if (value !== undefined && value !== null && !isMadeUp(name, value)) found[name] = value;
  }
  const properties = Object.entries(message.applicationProperties ?? {});
  if (properties.length) found.applicationProperties = Object.fromEntries(properties.map(([name, value]) => [name, cell(value)]));
  return found;
}

// Bodies go as bytes: a text would go as the client's JSON.
function outgoing({ repeat = 1, ...message }) {
  return { ...message, body: Buffer.from(message.body.repeat(repeat), "utf8") };
}

const within = (step) => ({ maxWaitTimeInMs: (step.wait ?? WAIT_SECONDS) * 1000 });
const open = (entity) => entity.split("/");

class Program {
  constructor(server) {
    this.server = server;
    this.client = this.connect();
    this.administration = new ServiceBusAdministrationClient(server.administration);
    this.kept = {};
  }

  // The client has no option for an authority: the process trusts NODE_EXTRA_CA_CERTS, so a wrong one cannot be asked for in it.
  connect(key) {
    return new ServiceBusClient(this.keyed(this.server.connection, key), { retryOptions: RETRIES });
  }

  keyed(connection, key) {
    return key === undefined ? connection : connection.replace(/SharedAccessKey=[^;]*/, `SharedAccessKey=${key}`);
  }

  async with(step, body) {
    if (step.key === undefined) return body(this.client);
    const client = this.connect(step.key);
    try {
      return await body(client);
    } finally {
      await client.close();
    }
  }

  async sending(step, body) {
    return this.with(step, async (client) => {
      const sender = client.createSender(step.to);
      try {
        return await body(sender);
      } finally {
        await sender.close();
      }
    });
  }

  async receiving(step, body) {
    const options = {
      receiveMode: step.delete ? "receiveAndDelete" : "peekLock",
      skipParsingBodyAsJson: true,
      maxAutoLockRenewalDurationInMs: 0,
      ...(step.dead ? { subQueueType: "deadLetter" } : {}),
    };
    return this.with(step, async (client) => {
      const receiver = client.createReceiver(...open(step.from), options);
      try {
        return await body(receiver);
      } finally {
        await receiver.close();
      }
    });
  }

  send(step) {
    return this.sending(step, async (sender) => {
      const messages = step.messages.map(outgoing);
      if (step.batch) {
        const batch = await sender.createMessageBatch();
        for (const message of messages) if (!batch.tryAddMessage(message)) throw new Error("the batch is full");
        await sender.sendMessages(batch);
      } else for (const message of messages) await sender.sendMessages(message);
      return "sent";
    });
  }

  fill(step) {
    return this.sending(step, async (sender) => {
      for (let n = 0; n < step.count; n++) await sender.sendMessages({ body: Buffer.alloc(step.bytes) });
      return "not full";
    });
  }

  schedule(step) {
    return this.sending(step, async (sender) => {
      const due = new Date(Date.now() + step.seconds * 1000);
      this.kept[step.name] = await sender.scheduleMessages(step.messages.map(outgoing), due);
      return "scheduled";
    });
  }

  cancel(step) {
    return this.sending(step, async (sender) => {
      await sender.cancelScheduledMessages(this.kept[step.of]);
      return "cancelled";
    });
  }

  async collect(receiver, step) {
    const found = [];
    while (found.length < step.count) {
      const some = await receiver.receiveMessages(step.count - found.length, within(step));
      if (some.length === 0) break;
      found.push(...some);
    }
    const told = found.map(rendered);
    for (const message of found) await this.settle(receiver, message, step);
    if (step.then === "defer") this.kept[step.name] = found.map((message) => message.sequenceNumber);
    return told;
  }

  async settle(receiver, message, { then, properties = {}, reason, description }) {
    switch (then) {
      case "complete":
        return receiver.completeMessage(message);
      case "abandon":
        return receiver.abandonMessage(message, properties);
      case "defer":
        return receiver.deferMessage(message, properties);
      case "deadLetter":
        return receiver.deadLetterMessage(message, {
          deadLetterReason: reason, deadLetterErrorDescription: description, ...properties,
        });
      case "renew": {
        const before = message.lockedUntilUtc;
        const until = await receiver.renewMessageLock(message);
        if (until < before) throw new Error(`renewed from ${before} to ${until}`);
        return receiver.completeMessage(message);
      }
      default:
        return undefined;
    }
  }

  receive(step) {
    return this.receiving(step, (receiver) => this.collect(receiver, step));
  }

  deferred(step) {
    return this.receiving(step, async (receiver) => {
      const found = await receiver.receiveDeferredMessages(this.kept[step.of]);
      const told = found.map(rendered);
      for (const message of found) await receiver.completeMessage(message);
      return told;
    });
  }

  peek(step) {
    return this.receiving(step, async (receiver) => (await receiver.peekMessages(step.count)).map(rendered));
  }

  accept(step) {
    const options = { skipParsingBodyAsJson: true, maxAutoLockRenewalDurationInMs: 0 };
    return step.session === null || step.session === undefined
      ? this.client.acceptNextSession(...open(step.from), options)
      : this.client.acceptSession(...open(step.from), step.session, options);
  }

  async session(step) {
    const receiver = await this.accept(step);
    try {
      const told = [receiver.sessionId];
      for (const part of step.then) told.push(await this.inSession(receiver, part));
      return told;
    } finally {
      await receiver.close();
    }
  }

  async inSession(receiver, part) {
    switch (part.op) {
      case "get":
        return text((await receiver.getSessionState()) ?? null);
      case "set":
        await receiver.setSessionState(part.state === null ? null : Buffer.from(part.state));
        return "set";
      case "renew":
        return (await receiver.renewSessionLock()) > new Date() ? "renewed" : "not renewed";
      default:
        return this.collect(receiver, part);
    }
  }

  async sessions(step) {
    const receivers = [];
    for (let n = 0; n < step.count; n++) receivers.push(await this.accept({ from: step.from }));
    const one = { count: step.messages, then: "complete" };
    const found = await Promise.all(receivers.map(async (receiver) => [receiver.sessionId, await this.collect(receiver, one)]));
    for (const receiver of receivers) await receiver.close();
    return Object.fromEntries(found.map(([name, messages]) => [name, messages.map((message) => message.body)]));
  }

  async twice(step) {
    const first = await this.accept(step);
    try {
      await (await this.accept(step)).close();
      return "accepted twice";
    } finally {
      await first.close();
    }
  }

  async rules(step) {
    const manager = this.client.createRuleManager(...open(step.subscription));
    try {
      for (const { name, filter, action } of step.create) {
        const by = filter.sql === undefined ? filter.correlation : { sqlExpression: filter.sql };
        await manager.createRule(name, by, action === undefined ? undefined : { sqlExpression: action });
      }
      for (const name of step.remove) await manager.deleteRule(name);
      const names = [];
      for await (const rule of manager.listRules()) names.push(rule.name);
      return names.sort();
    } finally {
      await manager.close?.();
    }
  }

  async queue({ entity, settings }) {
    await this.administration.createQueue(entity, settings);
    return "created";
  }

  async topic({ entity, settings }) {
    await this.administration.createTopic(entity, settings);
    return "created";
  }

  async subscription({ entity, settings }) {
    const [topic, name] = open(entity);
    await this.administration.createSubscription(topic, name, settings);
    return "created";
  }

  async rule({ entity, filter, action }) {
    const [topic, subscription, name] = open(entity);
    await this.administration.createRule(topic, subscription, name, { sqlExpression: filter.sql }, { sqlExpression: action });
    return "created";
  }

  async show({ what, settings }) {
    const found = await this.administration.getQueue(what);
    return Object.fromEntries(settings.map((name) => [name, found[name]]));
  }

  async counts({ what }) {
    const found = await this.administration.getQueueRuntimeProperties(what);
    return { active: found.activeMessageCount, dead: found.deadLetterMessageCount };
  }

  async list({ what, key }) {
    const administration =
      key === undefined
        ? this.administration
        : new ServiceBusAdministrationClient(this.keyed(this.server.administration, key), { retryOptions: { maxRetries: 0 } });
    const [topic, subscription] = open(what);
    const names = [];
    if (what === "queues") for await (const one of administration.listQueues()) names.push(one.name);
    else if (subscription === undefined)
      for await (const one of administration.listSubscriptions(topic)) names.push(one.subscriptionName);
    else for await (const one of administration.listRules(topic, subscription)) names.push(one.name);
    return names.sort();
  }

  async drop({ what }) {
    const [entity, subscription, rule] = open(what);
    if (rule !== undefined) await this.administration.deleteRule(entity, subscription, rule);
    else await this.administration.deleteQueue(entity);
    return "dropped";
  }
}

function failure(error) {
  return { error: error.code ?? error.name ?? null, text: error.message };
}

async function main() {
  let input = "";
  for await (const chunk of process.stdin) input += chunk;
  const { server, steps } = JSON.parse(input);
  parseServiceBusConnectionString(server.connection);
  const program = new Program(server);
  const results = {};
  for (const step of steps) results[step.name] = await program[step.op](step).catch(failure);
  await program.client.close();
  process.stdout.write(JSON.stringify(results));
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
