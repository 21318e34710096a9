// AG-UI's own client: a run with a tool of the server, one of the client, an interrupt, an error.
import { HttpAgent } from "@ag-ui/client";

const [url, token] = process.argv.slice(2);
const tell = (check, result) => console.log(JSON.stringify([check, result]));
const headers = { authorization: `Bearer ${token}` };
const agent = new HttpAgent({ url: `${url}/ag-ui/bot`, threadId: "t", headers });
const ask = async (text, more = {}) => {
  const types = [];
  let last, failed;
  agent.addMessage({ id: `m${agent.messages.length}`, role: "user", content: text });
  const done = await agent.runAgent(more, {
    onEvent: ({ event }) => { types.push(event.type); last = event; },
    onRunFailed: ({ error }) => { failed = String(error.message ?? error); },
  }).catch((error) => { failed = String(error.message ?? error); });
  return { types, last, failed, done };
};

const sum = await ask("2 and 3?");
tell("order", sum.types);
tell("messages", agent.messages.map((one) => [one.role, one.toolCalls?.[0]?.function ?? one.content]));
tell("state", agent.state);

const tools = [{ name: "color", description: "A color.", parameters: { type: "object", properties: {} } }];
const asked = await ask("color?", { tools });
tell("client's tool", agent.messages.at(-1).toolCalls[0].function.name);
agent.addMessage({ id: "r", role: "tool", toolCallId: agent.messages.at(-1).toolCalls[0].id, content: "blue" });
await agent.runAgent({ tools });
tell("its result", agent.messages.at(-1).content);

const waits = await ask("pay");
const [interrupt] = waits.last.outcome.interrupts;
tell("interrupt", [interrupt.reason, interrupt.metadata.name, interrupt.metadata.args]);
await agent.runAgent({ resume: [{ interruptId: interrupt.id, status: "resolved", payload: true }] });
tell("resumed", agent.messages.at(-1).content);

const wrong = await ask("fail");
tell("error", [wrong.types.at(-1), wrong.failed !== undefined || wrong.last.message !== undefined]);
