// The chat of Vercel's AI SDK over its own transport: text, a tool, an approval, an error.
import { AbstractChat, DefaultChatTransport } from "ai";

const [url, token] = process.argv.slice(2);
const tell = (check, result) => console.log(JSON.stringify([check, result]));

class State {
  status = "ready"; error = undefined; messages = [];
  pushMessage(one) { this.messages = [...this.messages, one]; }
  popMessage() { this.messages = this.messages.slice(0, -1); }
  replaceMessage(index, one) { this.messages = this.messages.with(index, one); }
  snapshot(value) { return structuredClone(value); }
}
class Chat extends AbstractChat {
  constructor(options) { super({ ...options, state: new State() }); }
}

let header, failed;
const transport = new DefaultChatTransport({
  api: `${url}/ai/bot`,
  headers: { authorization: `Bearer ${token}` },
  fetch: async (...args) => {
    const answer = await fetch(...args);
    header = answer.headers.get("x-vercel-ai-ui-message-stream");
    return answer;
  },
});
const chat = new Chat({ id: "c", transport, onError: (error) => { failed = error.message; } });
const parts = () => chat.messages.at(-1).parts.map((one) =>
  one.type === "dynamic-tool" ? [one.type, one.toolName, one.state, one.input, one.output ?? null]
    : [one.type, one.text ?? one.data]);

await chat.sendMessage({ text: "2 and 3?" });
tell("header", header);
tell("parts", parts());
await chat.sendMessage({ text: "pay" });
const waiting = chat.messages.at(-1).parts.find((one) => one.type === "dynamic-tool");
tell("asks", waiting.state);
await chat.addToolApprovalResponse({ id: waiting.approval.id, approved: true });
await chat.sendMessage();
tell("approved", parts());
await chat.sendMessage({ text: "fail" });
tell("error", failed);
failed = undefined;
await chat.regenerate().catch((error) => { failed = error.message; });
tell("refused", failed.includes("trigger"));
