// Vercel's AI SDK: its models of OpenAI, and those for servers that speak like OpenAI.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const openai = createOpenAI({ baseURL, apiKey });
const compatible = createOpenAICompatible({
  name: "weft", baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true,
});
const models = {
  chat: openai.chat, response: openai.responses, compatible: (name) => compatible.chatModel(name),
};
const schema = z.object({ city: z.string(), days: z.number().int() });
const add = tool({
  description: "Add.",
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: async ({ a, b }) => a + b,
});
const tell = (check, result) => console.log(JSON.stringify([check, result]));

for (const [name, model] of Object.entries(models)) {
  const common = { model: model("bot"), maxRetries: 0 };
  const plain = await generateText({ ...common, prompt: "Hello?" });
  tell(`${name} plain`, plain.text);
  tell(`${name} usage`, [plain.usage.inputTokens > 0, plain.usage.outputTokens > 0]);
  const streamed = streamText({ ...common, prompt: "Hello?" });
  const deltas = [];
  for await (const delta of streamed.textStream) deltas.push(delta);
  tell(`${name} streamed`, deltas);
  tell(`${name} streamed usage`, (await streamed.usage).outputTokens === plain.usage.outputTokens);
  const called = await generateText({
    ...common, prompt: "2 and 3?", tools: { add }, stopWhen: stepCountIs(3),
  });
  tell(`${name} tools`, called.text);
  tell(`${name} structured`, (await generateObject({ ...common, schema, prompt: "Hello?" })).object);
  const partial = streamObject({ ...common, schema, prompt: "Hello?" });
  let pieces = 0;
  for await (const _ of partial.partialObjectStream) pieces += 1;
  tell(`${name} structured streamed`, await partial.object);
  tell(`${name} structured in pieces`, pieces > 1);
  try {
    await generateText({ ...common, model: model("nobody"), prompt: "Hello?" });
  } catch (error) {
    tell(`${name} errors`, error.statusCode);
  }
}
