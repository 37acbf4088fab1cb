# Shell functions that the runbooks use: `. docs/runbooks/tools.sh prod`. They need the AWS CLI and your credentials.

export DUEBOOK_ENV=${1:?say which environment: . docs/runbooks/tools.sh prod}

# A resource's physical name by how its logical id begins: of_stack Data Parked
of_stack() {
  aws cloudformation describe-stack-resources --stack-name "Duebook-$DUEBOOK_ENV-$1" --output text \
    --query "StackResources[?starts_with(LogicalResourceId, '$2') && ResourceType == '$3'].PhysicalResourceId"
}

# A queue's URL: queue LifecycleQueue, PaymentsDeadLetters, ProjectionDeadLetters, EventsDefaultDeadLetters,
# Undelivered, StreamFailures, Parked
queue() { of_stack Data "$1" AWS::SQS::Queue; }

# A queue's ARN.
queue_arn() {
  aws sqs get-queue-attributes --queue-url "$(queue "$1")" --attribute-names QueueArn --output text --query Attributes.QueueArn
}

# How many messages are in a queue, and up to ten of them, which stay there.
peek() {
  aws sqs get-queue-attributes --queue-url "$(queue "$1")" --attribute-names All
  aws sqs receive-message --queue-url "$(queue "$1")" --max-number-of-messages 10 --visibility-timeout 0 \
    --attribute-names All --message-attribute-names All
}

# A function's name: function_name Sweeper
function_name() { of_stack App "Functions$1Function" AWS::Lambda::Function; }

# Ask the functions' logs (CloudWatch Logs Insights), of the last hours: ask 'filter level = "ERROR"' 6
ask() {
  local question
  question=$(aws logs start-query --start-time "$(($(date +%s) - ${2:-3} * 3600))" --end-time "$(date +%s)" \
    --query-string "SOURCE logGroups(namePrefix: ['Duebook-$DUEBOOK_ENV-App-Functions']) | $1" --query queryId --output text)
  for _ in $(seq 60); do
    aws logs get-query-results --query-id "$question" --query status --output text | grep -qE 'Scheduled|Running' || break
    sleep 1
  done
  aws logs get-query-results --query-id "$question" --query "results[*][?field != '@ptr'].value" --output text
}

# Call the API by Python: client 'client.payment("wedding-1.p1")'
client() {
  .venv/bin/python -c "from duebook_cli.connect import connect; client = connect('$DUEBOOK_ENV').client; print($1)"
}
