# What this configuration needs in Azure. Written by `dstream plan --terraform`; there is no secret in it.
#
# For a namespace{{ " and a storage account" if needs.locks else "" }} that nobody else uses. One that exists already must be imported, and becomes what is
# written here, its tier and whether keys work included: whoever else signs in to it with a key is locked out.
#
#   terraform init && terraform apply -var resource_group=GROUP -var issuer=URL
#
# where URL is the cluster's issuer: az aks show --resource-group GROUP --name CLUSTER --query oidcIssuerProfile.issuerUrl
# The provider also needs a subscription: export ARM_SUBSCRIPTION_ID.
{% if needs.patterns %}
#
# `tables` has patterns ({{ needs.patterns }}). Topics of tables that come to match later are not here, and of those that match
# now only with --with-matches. The router makes them with router.provision = "create"; otherwise plan again for each new table.
{% endif %}
{% if needs.provisioned %}
#
# Once this is applied, set provision = "none" in ingester.queue and in router, and plan again: the roles below shrink from
# Data Owner on the namespace to sending and receiving.
{% endif %}

terraform {
  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "~> 5.0"
    }
  }
}

provider "azurerm" {
  features {}
}

variable "resource_group" {
  type        = string
  description = "An existing resource group, where everything is."
}

{% for it in needs.namespaces %}
variable "{{ it.symbol }}_name" {
  type        = string
  description = "Service Bus namespace of {{ "the ingest queue and the topics" if it.queue and it.topics else "the ingest queue" if it.queue else "the topics" }}: unique in all of Azure."
{% if it.name %}
  default     = {{ it.name | hcl }}
{% endif %}
}

{% endfor %}
variable "tier" {
  type        = string
  description = "Premium for private endpoints, predictable latency and messages above 256 KB. Basic has neither topics nor sessions."
  default     = "Standard"

  validation {
    condition     = contains(["Standard", "Premium"], var.tier)
    error_message = "Standard or Premium."
  }
}

variable "message_kilobytes" {
  type        = number
  description = "The largest message, of queue and topics alike, on Premium: a topic with less than the queue dead-letters what is between the two."
  default     = 1024
}

{% if needs.locks %}
variable "storage_name" {
  type        = string
  description = "Storage account of the locks: unique in all of Azure."
{% if needs.locks.account %}
  default     = {{ needs.locks.account | hcl }}
{% endif %}
}

{% endif %}
variable "issuer" {
  type        = string
  description = "Issuer of the cluster's service account tokens."
}

variable "kubernetes_namespace" {
  type        = string
  description = "The Kubernetes namespace of both services."
  default     = "dstream"
}

variable "with_scaler" {
  type        = bool
  description = "Whether KEDA scales the router (dstream plan --keda)."
  default     = false
}

variable "keda_account" {
  type        = string
  description = "The service account of KEDA, as NAMESPACE:NAME."
  default     = "keda:keda-operator"
}

locals {
  premium = var.tier == "Premium"
}

data "azurerm_resource_group" "here" {
  name = var.resource_group
}

{% for it in needs.namespaces %}
resource "azurerm_servicebus_namespace" "{{ it.symbol }}" {
  name                         = var.{{ it.symbol }}_name
  resource_group_name          = data.azurerm_resource_group.here.name
  location                     = data.azurerm_resource_group.here.location
  sku                          = var.tier
  capacity                     = local.premium ? 1 : 0
  premium_messaging_partitions = local.premium ? 1 : 0
  # {{ "The configuration signs in with a key (connection_string); with namespace = \"...\" it needs none." if it.by_key else "Everything signs in with an identity." }}
  local_auth_enabled = {{ it.by_key | hcl }}
}

{% if it.queue %}
resource "azurerm_servicebus_queue" "queue" {
  name         = {{ it.queue.name | hcl }}
  namespace_id = azurerm_servicebus_namespace.{{ it.symbol }}.id
  # Sessions, partitions and duplicate detection are fixed from here on.
{% for name, value in queue_options(it.queue).items() %}
  {{ "%-39s" | format(name) }} = {{ value | hcl }}
{% endfor %}
  partitioning_enabled                    = false
  lock_duration                           = {{ lock | hcl }}
  max_delivery_count                      = {{ deliveries }}
  max_size_in_megabytes                   = local.premium ? {{ premium_megabytes }} : {{ standard_megabytes }}
  max_message_size_in_kilobytes           = local.premium ? var.message_kilobytes : null
}

{% endif %}
{% if it.topics %}
# One topic for each table, in the order of `tables`.
resource "azurerm_servicebus_topic" "topics" {
  for_each = toset([
{% for topic in it.topics %}
    {{ topic.name | hcl }},
{% endfor %}
  ])

  name         = each.key
  namespace_id = azurerm_servicebus_namespace.{{ it.symbol }}.id

{% for name, value in topic_options(it.topics[0]).items() %}
  {{ "%-39s" | format(name) }} = {{ value | hcl }}
{% endfor %}
  partitioning_enabled                    = false
  max_size_in_megabytes                   = local.premium ? {{ premium_megabytes }} : {{ standard_megabytes }}
  max_message_size_in_kilobytes           = local.premium ? var.message_kilobytes : null
}

{% for name in it.topics[0].subscriptions %}
# router.subscriptions. One that nobody reads fills its topic. 10 deliveries are the service's default.
resource "azurerm_servicebus_subscription" "subscription{{ loop.index }}" {
  for_each = azurerm_servicebus_topic.topics

  name               = {{ name | hcl }}
  topic_id           = each.value.id
  max_delivery_count = 10
}

{% endfor %}
{% endif %}
{% endfor %}
{% if needs.locks %}
resource "azurerm_storage_account" "storage" {
  name                            = var.storage_name
  resource_group_name             = data.azurerm_resource_group.here.name
  location                        = data.azurerm_resource_group.here.location
  account_tier                    = "Standard"
  account_replication_type        = "LRS"
  allow_nested_items_to_be_public = false
  shared_access_key_enabled       = {{ needs.locks.by_key | hcl }}
}

resource "azurerm_storage_container" "container" {
  name                  = {{ needs.locks.container | hcl }}
  storage_account_id    = azurerm_storage_account.storage.id
  container_access_type = "private"
}

{% endif %}
{% for who, name in identities %}
resource "azurerm_user_assigned_identity" "{{ who }}" {
{% if who == "scaler" %}
  count = var.with_scaler ? 1 : 0

{% endif %}
  name                = {{ name | hcl }}
  resource_group_name = data.azurerm_resource_group.here.name
  location            = data.azurerm_resource_group.here.location
}

# A pod of this service account signs in as the identity.
resource "azurerm_federated_identity_credential" "{{ who }}" {
{% if who == "scaler" %}
  count = var.with_scaler ? 1 : 0

{% endif %}
  name                      = "kubernetes"
  user_assigned_identity_id = azurerm_user_assigned_identity.{{ who }}{{ "[0]" if who == "scaler" else "" }}.id
  issuer                    = var.issuer
  subject                   = "system:serviceaccount:{{ "${var.keda_account}" if who == "scaler" else "${var.kubernetes_namespace}:" ~ name }}"
  audience                  = ["api://AzureADTokenExchange"]
}

{% endfor %}
{% for it in grants %}
# {{ it.grant.who }}: {{ it.grant.why }}
resource "azurerm_role_assignment" "{{ it.symbol }}" {
{% if it.grant.on == "topics" %}
  for_each = azurerm_servicebus_topic.topics

{% elif it.grant.who == "scaler" %}
  count = var.with_scaler ? 1 : 0

{% endif %}
  scope                = {{ it.target }}
  role_definition_name = {{ it.grant.role.value | hcl }}
  principal_id         = azurerm_user_assigned_identity.{{ it.grant.who }}{{ "[0]" if it.grant.who == "scaler" else "" }}.principal_id
  principal_type       = "ServicePrincipal"
}

{% endfor %}
# For the annotation azure.workload.identity/client-id of each service account, and AZURE_CLIENT_ID elsewhere.
{% for who, name in identities %}
output "{{ who }}_client_id" {
  value = {{ "one(azurerm_user_assigned_identity.scaler[*].client_id)" if who == "scaler" else "azurerm_user_assigned_identity." ~ who ~ ".client_id" }}
}
{% endfor %}
