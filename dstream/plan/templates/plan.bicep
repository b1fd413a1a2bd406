// What this configuration needs in Azure. Written by `dstream plan --bicep`; there is no secret in it.
//
// For a namespace{{ " and a storage account" if needs.locks else "" }} that nobody else uses: one that exists already becomes what is written here, its tier
// and whether keys work included, and whoever else signs in to it with a key is locked out.
//
//   az deployment group create --resource-group GROUP --template-file plan.bicep --parameters issuer=URL
//
// where URL is the cluster's issuer: az aks show --resource-group GROUP --name CLUSTER --query oidcIssuerProfile.issuerUrl
{% if needs.patterns %}
//
// `tables` has patterns ({{ needs.patterns }}). Topics of tables that come to match later are not here, and of those that match
// now only with --with-matches. The router makes them with router.provision = "create"; otherwise plan again for each new table.
{% endif %}
{% if needs.provisioned %}
//
// Once this is deployed, set provision = "none" in ingester.queue and in router, and plan again: the roles below shrink from
// Data Owner on the namespace to sending and receiving.
{% endif %}

@description('Where everything is.')
param location string = resourceGroup().location

{% for it in needs.namespaces %}
@description('Service Bus namespace of {{ "the ingest queue and the topics" if it.queue and it.topics else "the ingest queue" if it.queue else "the topics" }}: unique in all of Azure.')
param {{ it.symbol | camel }}Name string{{ " = " ~ (it.name | bicep) if it.name else "" }}

{% endfor %}
@description('Premium for private endpoints, predictable latency and messages above 256 KB. Basic has neither topics nor sessions.')
@allowed([
  'Standard'
  'Premium'
])
param tier string = 'Standard'

@description('The largest message, of queue and topics alike, on Premium: a topic with less than the queue dead-letters what is between the two.')
param messageKilobytes int = 1024

{% if needs.locks %}
@description('Storage account of the locks: unique in all of Azure.')
param storageName string{{ " = " ~ (needs.locks.account | bicep) if needs.locks.account else "" }}

{% endif %}
@description('Issuer of the cluster\'s service account tokens.')
param issuer string

@description('The Kubernetes namespace of both services.')
param kubernetesNamespace string = 'dstream'

@description('Whether KEDA scales the router (dstream plan --keda).')
param withScaler bool = false

@description('The service account of KEDA, as NAMESPACE:NAME.')
param kedaAccount string = 'keda:keda-operator'

// Built-in roles: https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
{% for symbol, role, id in roles %}
var {{ symbol }} = '{{ id }}' // {{ role }}
{% endfor %}

{% for it in needs.namespaces %}
resource {{ it.symbol | camel }} 'Microsoft.ServiceBus/namespaces@2024-01-01' = {
  name: {{ it.symbol | camel }}Name
  location: location
  sku: {
    name: tier
    tier: tier
  }
  properties: {
    // {{ "The configuration signs in with a key (connection_string); with namespace = \"...\" it needs none." if it.by_key else "Everything signs in with an identity." }}
    disableLocalAuth: {{ (not it.by_key) | bicep }}
    minimumTlsVersion: '1.2'
  }
}

{% if it.queue %}
resource queue 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = {
  parent: {{ it.symbol | camel }}
  name: {{ it.queue.name | arm | bicep }}
  properties: {
    // Sessions, partitions and duplicate detection are fixed from here on.
{% for name, value in queue_options(it.queue).items() %}
    {{ name | camel }}: {{ value | bicep }}
{% endfor %}
    enablePartitioning: false
    lockDuration: {{ lock | bicep }}
    maxDeliveryCount: {{ deliveries }}
    maxSizeInMegabytes: tier == 'Premium' ? {{ premium_megabytes }} : {{ standard_megabytes }}
    maxMessageSizeInKilobytes: tier == 'Premium' ? messageKilobytes : null
  }
}

{% endif %}
{% if it.topics %}
// One topic for each table, in the order of `tables`.
var topicNames = [
{% for topic in it.topics %}
  {{ topic.name | arm | bicep }}
{% endfor %}
]

resource topics 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' = [for name in topicNames: {
  parent: {{ it.symbol | camel }}
  name: name
  properties: {
{% for name, value in topic_options(it.topics[0]).items() %}
    {{ name | camel }}: {{ value | bicep }}
{% endfor %}
    enablePartitioning: false
    maxSizeInMegabytes: tier == 'Premium' ? {{ premium_megabytes }} : {{ standard_megabytes }}
    maxMessageSizeInKilobytes: tier == 'Premium' ? messageKilobytes : null
  }
}]

{% for name in it.topics[0].subscriptions %}
// router.subscriptions. One that nobody reads fills its topic.
resource subscription{{ loop.index }} 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2024-01-01' = [for (topic, i) in topicNames: {
  parent: topics[i]
  name: {{ name | bicep }}
}]

{% endfor %}
{% endif %}
{% endfor %}
{% if needs.locks %}
resource storage 'Microsoft.Storage/storageAccounts@2023-05-01' = {
  name: storageName
  location: location
  kind: 'StorageV2'
  sku: {
    name: 'Standard_LRS'
  }
  properties: {
    allowBlobPublicAccess: false
    allowSharedKeyAccess: {{ needs.locks.by_key | bicep }}
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' = {
  parent: storage
  name: 'default'
}

resource container 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = {
  parent: blobs
  name: {{ needs.locks.container | bicep }}
}

{% endif %}
{% for who, name in identities %}
resource {{ who }} 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {{ "if (withScaler) " if who == "scaler" else "" }}{
  name: {{ name | bicep }}
  location: location
}

// A pod of this service account signs in as the identity.
resource {{ who }}Account 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2023-01-31' = {{ "if (withScaler) " if who == "scaler" else "" }}{
  parent: {{ who }}
  name: 'kubernetes'
  properties: {
    issuer: issuer
    subject: {{ "'system:serviceaccount:${kedaAccount}'" if who == "scaler" else "'system:serviceaccount:${kubernetesNamespace}:" ~ name ~ "'" }}
    audiences: [
      'api://AzureADTokenExchange'
    ]
  }
}

{% endfor %}
{% for it in grants %}
// {{ it.grant.who }}: {{ it.grant.why }}
resource {{ it.symbol }} 'Microsoft.Authorization/roleAssignments@2022-04-01' = {{ "[for (topic, i) in topicNames: " if it.grant.on == "topics" else "if (withScaler) " if it.grant.who == "scaler" else "" }}{
  name: guid({{ it.target }}.id, {{ it.grant.who }}.id, {{ it.role }})
  scope: {{ it.target }}
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', {{ it.role }})
    principalId: {{ it.grant.who }}{{ "!" if it.grant.who == "scaler" else "" }}.properties.principalId
    principalType: 'ServicePrincipal'
  }
}{{ "]" if it.grant.on == "topics" else "" }}

{% endfor %}
// For the annotation azure.workload.identity/client-id of each service account, and AZURE_CLIENT_ID elsewhere.
{% for who, name in identities %}
output {{ who }}ClientId string = {{ "withScaler ? scaler!.properties.clientId : ''" if who == "scaler" else who ~ ".properties.clientId" }}
{% endfor %}
