"""The names of OpenTelemetry's GenAI conventions that Weft writes, in one place.

They are still in development there, so that no package is a source of them.
"""

CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
INVOKE_AGENT = "invoke_agent"
INVOKE_WORKFLOW = "invoke_workflow"

AGENT = "gen_ai.agent.name"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CONVERSATION = "gen_ai.conversation.id"
ERROR = "error.type"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT = "gen_ai.input.messages"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
INSTRUCTIONS = "gen_ai.system_instructions"
OPERATION = "gen_ai.operation.name"
OUTPUT = "gen_ai.output.messages"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
RESPONSE_MODEL = "gen_ai.response.model"
TOKEN_TYPE = "gen_ai.token.type"
TOOL = "gen_ai.tool.name"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_RESULT = "gen_ai.tool.call.result"
WORKFLOW = "gen_ai.workflow.name"

DURATION = "gen_ai.client.operation.duration"
FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
TOKEN_USAGE = "gen_ai.client.token.usage"

PROVIDERS = {
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "openai-chat": "openai",
    "openai-responses": "openai",
}
"""The conventions' word for who speaks a dialect."""

ROLES = {"model": "assistant", "user": "user", "system": "system", "tool": "tool"}
"""The conventions' word for a role of ours."""
